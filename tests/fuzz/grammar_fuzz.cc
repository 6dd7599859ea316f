// Any bytes as a schema, an expression, a grammar, choices or a structural tag: no fault in any of them.
// links: constraint api
//
// It is checked, compiled where this build has XGrammar, and walked for a while. The first byte says which.
#include <cstdint>
#include <string>

#include "api/fake_tokenizer.h"
#include "base/check.h"
#include "constraint/grammar_backend.h"

namespace {

using namespace pagoda;

const GrammarBackend* backend() {
  static const FakeTokenizer tokenizer;
  static const auto made = make_xgrammar_backend(tokenizer, 260, {FakeTokenizer::kEos});
  return made.get();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > 2000 || backend() == nullptr) return 0;
  GrammarSpec spec;
  spec.kind = static_cast<GrammarSpec::Kind>(1 + data[0] % 5);
  spec.text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  spec.special_tokens = data[0] % 2 == 0;
  const Result<CompiledConstraint> compiled = backend()->compile(spec);
  if (!compiled) {
    CHECK(compiled.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const auto constraint = compiled->factory->make();
  std::vector<MaskWord> mask(mask_words(260));
  for (std::size_t step = 0; step < 40 && !constraint->is_terminated() && constraint->fill_mask(mask);
       ++step) {
    TokenId token = static_cast<TokenId>((step * 37 + size) % 260);
    while (!allows(mask, token)) token = (token + 1) % 260;
    CHECK(constraint->advance(token));
    if (step % 3 == 0) {
      constraint->rollback(1);
      CHECK(constraint->advance(token));
    }
  }
  return 0;
}
