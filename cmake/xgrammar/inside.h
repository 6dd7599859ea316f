#pragma once
// The needs of constraint/xgrammar_backend.cc beyond XGrammar's public headers. Inside its library, since it
// needs its inner headers. Errors: exceptions, as XGrammar's. Source: XGrammar 0.2.8.
#include <xgrammar/xgrammar.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace pagoda {

// Receives the thread's first warning; null: nothing does.
extern thread_local std::string* xgrammar_warning;

// While it lives, this thread's work on grammars is counted (work.h), and beyond `most` units, or once
// `given_up` is true, XGrammar throws. Not nested.
class XgrammarWork {
 public:
  XgrammarWork(std::int64_t most, const std::atomic<bool>* given_up);
  ~XgrammarWork();
  XgrammarWork(const XgrammarWork&) = delete;
};

// Whether XGrammar holds a pattern to within a JSON string: for others it falls back to expressions that may
// write bare quotes and control characters.
bool xgrammar_holds_pattern(const std::string& pattern);
// Whether a text as a whole matches a pattern that is held. Nothing: the pattern cannot be asked so.
std::optional<bool> xgrammar_matches(const std::string& pattern, const std::string& text);

// Compiles grammars for one vocabulary, and computes the masks of a rule once for all grammars that have the
// same rule: of a schema, nearly all but the names. Threads: several at a time.
class XgrammarCompiler {
 public:
  // Keeps the masks of at most `shared_bytes`, the least recently used leave first.
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

// Bytes of the grammar's lists that others may share; the others are its own.
std::int64_t xgrammar_shareable_bytes(const xgrammar::CompiledGrammar& grammar);
// Bytes of all such lists that live, whoever holds them.
std::int64_t xgrammar_live_shared_bytes();

}  // namespace pagoda
