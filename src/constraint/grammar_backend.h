#pragma once
// GrammarBackend: compiles one grammar for one vocabulary. The library behind it is XGrammar
// (xgrammar_backend.cc); a build without it has none. Threads: compile() from several at a time. Errors:
// invalid_argument in our words, whatever is wrong with the grammar; no exception comes out.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "constraint/grammar_spec.h"
#include "request/ids.h"
#include "request/token_constraint.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

struct CompiledConstraint {
  std::shared_ptr<const TokenConstraintFactory> factory;
  std::int64_t bytes = 0;         // that it alone takes, about
  std::int64_t shared_bytes = 0;  // part that others of the backend may hold, too
  // Keywords of its schemas that are not held, where that was allowed.
  std::vector<std::string> left_out = {};
};

class GrammarBackend {
 public:
  virtual ~GrammarBackend() = default;
  // The work is bounded, and the same grammar always takes the same. Once `*given_up` is true it ends soon,
  // with an error; null: somebody waits to the end.
  virtual Result<CompiledConstraint> compile(const GrammarSpec& spec,
                                             const std::atomic<bool>* given_up = nullptr) const = 0;
  // Does beforehand what most grammars need; on the thread that will compile them.
  virtual void warm_up() const {}
  // Bytes that several grammars hold, each counted once, as long as anybody holds it.
  virtual std::int64_t live_shared_bytes() const { return 0; }
};

// Null in a build without XGrammar. Borrows the tokenizer. `vocab_size`: ids that the model knows;
// `stop_tokens` end an answer.
std::shared_ptr<const GrammarBackend> make_xgrammar_backend(const Tokenizer& tokenizer,
                                                            std::int32_t vocab_size,
                                                            std::vector<TokenId> stop_tokens);

}  // namespace pagoda
