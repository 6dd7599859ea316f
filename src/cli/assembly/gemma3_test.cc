// Goal: gemma-3-270m as it is published reads text as its makers' tokenizer does, and predicts a text longer
// than its window as an independent implementation does. Skipped where script/model has not fetched it;
// greedy continuations are in model_runner/golden_test.cc.
#include <gtest/gtest.h>

#include "cli/assembly/load_tokenizer.h"
#include "model_runner/perplexity.h"
#include "model_runner/test_sequences.h"
#include "models/read_config.h"

namespace pagoda::testing {
namespace {

constexpr const char* kFile = "gemma-3-270m-q4_k_m.gguf";
constexpr const char* kMissing = "no gemma-3-270m (script/model gemma-3-270m) or no shared test data";

TEST(Gemma3Tokenizer, AgreesWithItsMakers) {
  const auto model = fetched_model(kFile);
  const auto goldens = shared_data("conformance/gemma3_270m_tokenizer_golden.jsonl");
  if (!model || !goldens) GTEST_SKIP() << kMissing;
  const auto source = ModelSource::open(*model);
  ASSERT_TRUE(source) << source.error().message();
  const auto tokenizer = load_tokenizer(**source);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const auto lines = read_json_lines(*goldens);
  EXPECT_EQ(lines.size(), 102u);
  for (const boost::json::object& line : lines) {
    const std::string text(line.at("text").as_string());
    const auto ids = (*tokenizer)->encode(text);
    ASSERT_TRUE(ids) << text;
    EXPECT_EQ(*ids, ids_of(line.at("ids"))) << text;
  }
}

TEST(Gemma3, ATurnsEndEndsAnAnswer) {
  const auto model = fetched_model(kFile);
  if (!model) GTEST_SKIP() << kMissing;
  const auto source = ModelSource::open(*model);
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ(read_model_config(**source)->eos_token_ids, (std::vector<TokenId>{1, 106}));
}

TEST(Gemma3, PredictsATextLongerThanItsWindow) {
  const auto model = fetched_model(kFile);
  const auto golden_file = shared_data("conformance/gemma3_270m_perplexity_golden.jsonl");
  const auto corpus = shared_data("workloads/alpaca.jsonl");
  if (!model || !golden_file || !corpus) GTEST_SKIP() << kMissing;
  const boost::json::object golden = read_json_lines(*golden_file).front();
  std::string text;
  const auto lines = read_json_lines(*corpus);
  for (std::size_t i = 0; i < 58; ++i) {
    if (i > 0) text += "\n\n";
    text += lines[i].at("output").as_string();
  }
  ASSERT_EQ(static_cast<std::int64_t>(text.size()), golden.at("text_bytes").to_number<std::int64_t>());

  auto opened = ModelSource::open(*model);
  ASSERT_TRUE(opened) << opened.error().message();
  const std::shared_ptr<const ModelSource> source = *std::move(opened);
  const auto tokenizer = load_tokenizer(*source);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  auto ids = (*tokenizer)->encode(text);
  ASSERT_TRUE(ids);
  ids->insert(ids->begin(), read_model_config(*source)->bos_token_id);
  const auto count = golden.at("n_tokens").to_number<std::size_t>();
  ASSERT_GT(ids->size(), count);
  ids->resize(count);

  RunnerOptions options;  // types that a server would choose
  options.dtype = "auto";
  options.threads = 2;
  options.num_blocks = 200;
  options.max_num_batched_tokens = 512;
  const auto runner = LocalModelRunner::create(source, options);
  ASSERT_TRUE(runner) << runner.error().message();
  const auto result = measure_perplexity(**runner, *ids,
                                         {.context = static_cast<std::int32_t>(count),
                                          .block_size = options.block_size,
                                          .max_num_batched_tokens = options.max_num_batched_tokens});
  ASSERT_TRUE(result) << result.error().message();
  const double expected = golden.at("mean_nll").to_number<double>();
  std::printf("mean negative log-likelihood %.6f, in float32 %.6f\n", result->mean_nll, expected);
  // 8-bit activations cost some of it.
  EXPECT_NEAR(result->mean_nll, expected, 0.02);
}

}  // namespace
}  // namespace pagoda::testing
