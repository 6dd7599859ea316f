#pragma once
// GrammarBackend: compiles one grammar for one vocabulary, using XGrammar (xgrammar_backend.cc); a build
// without XGrammar has no backend. Threads: compile() may be called from several at a time. Errors:
// invalid_argument, in our own words, for any problem with the grammar; throws nothing.
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
  std::int64_t bytes = 0;         // approximate bytes that only this constraint uses
  std::int64_t shared_bytes = 0;  // bytes that it may share with other constraints of the backend
  // Schema keywords that are not enforced, if that was permitted.
  std::vector<std::string> left_out = {};
};

class GrammarBackend {
 public:
  virtual ~GrammarBackend() = default;
  // The work is bounded and deterministic for a given grammar. Once `*given_up` is true, ends soon with an
  // error; null: never given up.
  virtual Result<CompiledConstraint> compile(const GrammarSpec& spec,
                                             const std::atomic<bool>* given_up = nullptr) const = 0;
  // Precomputes data that most grammars need; call on the thread that will compile them.
  virtual void warm_up() const {}
  // Bytes shared between grammars, each counted once as long as any grammar uses it.
  virtual std::int64_t live_shared_bytes() const { return 0; }
};

// Null in a build without XGrammar. Borrows the tokenizer. `vocab_size`: number of ids that the model knows;
// `stop_tokens` end an answer.
std::shared_ptr<const GrammarBackend> make_xgrammar_backend(const Tokenizer& tokenizer,
                                                            std::int32_t vocab_size,
                                                            std::vector<TokenId> stop_tokens);

}  // namespace pagoda
