#pragma once
// The interface of XGrammar that constraint/xgrammar_backend.cc needs beyond its public headers. Part of
// XGrammar's library, since it needs internal headers. Errors: exceptions, as in XGrammar. Source: XGrammar
// 0.2.8.
#include <xgrammar/xgrammar.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace pagoda {

// Receives the first warning of this thread. If null, warnings are dropped.
extern thread_local std::string* xgrammar_warning;

// During its lifetime, this thread's work on grammars is counted (work.h). XGrammar throws after more than
// `most` units, or once `given_up` is true. Must not be nested.
class XgrammarWork {
 public:
  XgrammarWork(std::int64_t most, const std::atomic<bool>* given_up);
  ~XgrammarWork();
  XgrammarWork(const XgrammarWork&) = delete;
};

// True if XGrammar enforces a pattern within a JSON string. For other patterns it falls back to expressions
// that allow unescaped quotes and control characters.
bool xgrammar_holds_pattern(const std::string& pattern);
// True if the whole text matches a pattern that is enforced. nullopt if this pattern cannot be tested.
std::optional<bool> xgrammar_matches(const std::string& pattern, const std::string& text);

// Compiles grammars for one vocabulary. The masks of a rule are computed once for all grammars with the same
// rule; in a schema, these are nearly all rules except property names. Thread-safe.
class XgrammarCompiler {
 public:
  // Keeps at most `shared_bytes` of masks; the least recently used are evicted first.
  XgrammarCompiler(const xgrammar::TokenizerInfo& vocabulary, std::size_t shared_bytes);
  ~XgrammarCompiler();
  XgrammarCompiler(const XgrammarCompiler&) = delete;

  xgrammar::CompiledGrammar json_schema(const std::string& schema, int max_white_space) const;
  xgrammar::CompiledGrammar regex(const std::string& regex) const;
  xgrammar::CompiledGrammar lark(const std::string& grammar) const;
  xgrammar::CompiledGrammar structural_tag(const std::string& tag) const;
  xgrammar::CompiledGrammar ebnf(const std::string& grammar) const;

 private:
  struct Rules;
  std::unique_ptr<Rules> rules_;
};

// Bytes of the grammar's masks, which other grammars may share; all other bytes are its own.
std::int64_t xgrammar_shareable_bytes(const xgrammar::CompiledGrammar& grammar);
// Bytes of all live masks, whether cached or in use.
std::int64_t xgrammar_live_shared_bytes();

}  // namespace pagoda
