// Goal: vLLM's --speculative-config for "ngram" is understood with its defaults; anything else is refused by
// the name of its field.
#include "cli/flags/speculative_flag.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(SpeculativeFlag, TakesVllmsFields) {
  const auto config = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4,"prompt_lookup_min":2})");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->num_speculative_tokens, 5);
  EXPECT_EQ(config->prompt_lookup_max, 4);
  EXPECT_EQ(config->prompt_lookup_min, 2);
  EXPECT_EQ(config->disable_by_batch_size, 0);
}

TEST(SpeculativeFlag, FillsInAsVllmDoes) {
  const auto both = parse_speculative_config(R"({"method":"ngram","num_speculative_tokens":3})");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->prompt_lookup_max, 5);
  EXPECT_EQ(both->prompt_lookup_min, 5);
  const auto max = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4,"disable_by_batch_size":8})");
  ASSERT_TRUE(max);
  EXPECT_EQ(max->prompt_lookup_min, 4);
  EXPECT_EQ(max->disable_by_batch_size, 8);
  const auto min = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":2,"prompt_lookup_max":null})");
  ASSERT_TRUE(min);
  EXPECT_EQ(min->prompt_lookup_max, 2);
}

TEST(SpeculativeFlag, TakesADraftModel) {
  for (const char* json : {R"({"method":"draft_model","model":"a/b","num_speculative_tokens":4})",
                           R"({"model":"a/b","num_speculative_tokens":4,"draft_tensor_parallel_size":1})"}) {
    const auto config = parse_speculative_config(json);
    ASSERT_TRUE(config) << json;
    EXPECT_EQ(config->method, DraftMethod::draft_model);
    EXPECT_EQ(config->model, "a/b");
    EXPECT_EQ(config->num_speculative_tokens, 4);
  }
  const auto ngram = parse_speculative_config(R"({"model":"[ngram]","num_speculative_tokens":4})");
  ASSERT_TRUE(ngram);
  EXPECT_EQ(ngram->method, DraftMethod::ngram);
}

TEST(SpeculativeFlag, RefusesByName) {
  const auto param = [](const char* json) {
    const auto config = parse_speculative_config(json);
    EXPECT_FALSE(config) << json;
    return config ? std::string() : config.error().param();
  };
  EXPECT_EQ(param("nonsense"), "");
  EXPECT_EQ(param("[1]"), "");
  EXPECT_EQ(param("{}"), "method");
  EXPECT_EQ(param(R"({"method":"eagle","num_speculative_tokens":3})"), "method");
  EXPECT_EQ(param(R"({"method":7,"num_speculative_tokens":3})"), "method");
  EXPECT_EQ(param(R"({"method":"ngram"})"), "num_speculative_tokens");
  EXPECT_EQ(param(R"({"method":"ngram","num_speculative_tokens":0})"), "num_speculative_tokens");
  EXPECT_EQ(param(R"({"method":"ngram","num_speculative_tokens":2.5})"), "num_speculative_tokens");
  EXPECT_EQ(param(R"({"method":"ngram","num_speculative_tokens":"3"})"), "num_speculative_tokens");
  EXPECT_EQ(param(R"({"method":"ngram","num_speculative_tokens":99999999999})"), "num_speculative_tokens");
  EXPECT_EQ(param(R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":0})"),
            "prompt_lookup_max");
  EXPECT_EQ(
      param(R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":2,"prompt_lookup_min":3})"),
      "prompt_lookup_min");
  EXPECT_EQ(param(R"({"method":"ngram","num_speculative_tokens":3,"model":"x"})"), "model");
  EXPECT_EQ(param(R"({"method":"draft_model","num_speculative_tokens":3})"), "model");
  EXPECT_EQ(param(R"({"method":"eagle","model":"x","num_speculative_tokens":3})"), "method");
  EXPECT_EQ(param(R"({"model":"x"})"), "num_speculative_tokens");
  EXPECT_EQ(param(R"({"model":"x","num_speculative_tokens":3,"prompt_lookup_max":2})"), "prompt_lookup_max");
  EXPECT_EQ(param(R"({"model":"x","num_speculative_tokens":3,"draft_tensor_parallel_size":2})"),
            "draft_tensor_parallel_size");
}

}  // namespace
}  // namespace pagoda
