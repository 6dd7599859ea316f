#pragma once
// For tests only: a fixture with a backend on a vocabulary of bytes and a word, and random walks through
// compiled grammars.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "api/fake_tokenizer.h"
#include "base/random.h"
#include "constraint/grammar_backend.h"

namespace pagoda {

using Kind = GrammarSpec::Kind;
inline constexpr std::int32_t kVocabulary = 300;  // the model knows more ids than the tokenizer

class Xgrammar : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = make_xgrammar_backend(tokenizer_, kVocabulary, {FakeTokenizer::kEos});
    if (backend_ == nullptr) GTEST_SKIP() << "this build has no XGrammar";
  }
  std::shared_ptr<const TokenConstraintFactory> compile(Kind kind, std::string text) {
    const Result<CompiledConstraint> compiled = backend_->compile({.kind = kind, .text = std::move(text)});
    EXPECT_TRUE(compiled.has_value()) << (compiled ? "" : compiled.error().message());
    return compiled ? compiled->factory : nullptr;
  }
  std::string problem(Kind kind, std::string text) {
    const Result<CompiledConstraint> compiled = backend_->compile({.kind = kind, .text = std::move(text)});
    return compiled ? "" : compiled.error().message();
  }
  static std::vector<TokenId> allowed(TokenConstraint& constraint) {
    std::vector<MaskWord> mask(mask_words(kVocabulary));
    (void)constraint.fill_mask(mask);
    std::vector<TokenId> out;
    for (TokenId token = 0; token < kVocabulary; ++token)
      if (allows(mask, token)) out.push_back(token);
    return out;
  }
  // A random answer; empty if it did not end.
  std::string walk(const TokenConstraintFactory& factory, std::uint64_t seed, std::size_t most = 3000) {
    const auto constraint = factory.make();
    std::vector<TokenId> said;
    while (said.size() < most) {
      const std::vector<TokenId> next = allowed(*constraint);
      if (next.empty()) {
        ADD_FAILURE() << "a dead end after " << tokenizer_.decode(said, true);
        return "";
      }
      TokenId token = next[random_bits(seed, said.size(), 0) % next.size()];
      // Ends early where the grammar permits.
      if (said.size() > 40 && next.back() == FakeTokenizer::kEos) token = FakeTokenizer::kEos;
      for (const TokenId closing : {'"', '}', ']', ','})
        if (said.size() > 60 && random_bits(seed, said.size(), 1) % 3 == 0 &&
            std::ranges::binary_search(next, closing))
          token = closing;
      EXPECT_TRUE(constraint->advance(token));
      if (constraint->is_terminated()) return tokenizer_.decode(said, true);
      said.push_back(token);
    }
    return "";
  }

  FakeTokenizer tokenizer_;
  std::shared_ptr<const GrammarBackend> backend_;
};

}  // namespace pagoda
