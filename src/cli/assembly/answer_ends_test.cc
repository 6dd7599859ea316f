// Goal: an answer ends with what any of a model's files names, the tokenizer's EOS first.
#include "cli/assembly/answer_ends.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr const char* kTokenizer = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
  "added_tokens": [{"id": 2, "content": "<|im_end|>", "special": true}]})";

TEST(AnswerEnds, TheTokenizersEosIsOneAndComesFirst) {
  const auto made = Tokenizer::from_json(kTokenizer, {.config = R"({"eos_token": "<|im_end|>"})"});
  ASSERT_TRUE(made) << made.error().message();
  ModelInfo config;
  config.decoder.vocab_size = 3;
  EXPECT_EQ(answer_ends(config, made->get()), (std::vector<TokenId>{2})) << "config.json names none";
  config.eos_token_ids = {1, 2};
  EXPECT_EQ(answer_ends(config, made->get()), (std::vector<TokenId>{2, 1}));
  EXPECT_EQ(answer_ends(config, nullptr), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(describe_ends(answer_ends(config, made->get()), **made), "end-of-turn tokens: 2 <|im_end|>, 1 b");
  config.decoder.vocab_size = 2;
  config.eos_token_ids = {1};
  EXPECT_EQ(answer_ends(config, made->get()), (std::vector<TokenId>{1})) << "the model has no such token";
}

}  // namespace
}  // namespace pagoda
