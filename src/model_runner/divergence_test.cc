// Goal: the divergence of a runner from itself is nothing, that of one which rounds is small and positive,
// and both texts' figures are those of measure_perplexity.
#include "model_runner/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "model_runner/local_model_runner.h"

namespace pagoda {
namespace {

std::unique_ptr<LocalModelRunner> llama_in(const std::string& dtype) {
  auto source = ModelSource::open(PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/llama");
  EXPECT_TRUE(source);
  RunnerOptions options;
  options.dtype = dtype;
  options.num_blocks = 8;
  options.max_num_batched_tokens = 20;
  auto runner = LocalModelRunner::create(*std::move(source), options);
  EXPECT_TRUE(runner);
  return *std::move(runner);
}

TEST(Divergence, IsZeroFromOneselfAndSmallFromRounding) {
  const auto exact = llama_in("float32"), rounded = llama_in("bfloat16"), coarse = llama_in("int8");
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 45; ++i) tokens.push_back(3 + 7 * i % 60);
  const PerplexityOptions options = {.context = 20, .max_num_batched_tokens = 20};
  const auto measure = [&](LocalModelRunner& runner) {
    auto result = measure_divergence(runner, *exact, {}, exact->config().vocab_size, tokens, options);
    EXPECT_TRUE(result) << result.error().message();
    return *result;
  };
  const DivergenceResult none = measure(*exact), some = measure(*rounded), more = measure(*coarse);
  EXPECT_EQ(none.num_scored, 42);  // windows of 20, 20 and 5
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.largest, 0);
  EXPECT_EQ(none.same_top, 1);
  EXPECT_EQ(none.nll_difference_error, 0);
  EXPECT_GT(some.mean, 0);
  EXPECT_LT(some.mean, 1e-3);
  EXPECT_GT(more.mean, some.mean);
  EXPECT_LE(some.mean, some.p99);
  EXPECT_LE(some.p99, some.largest);
  EXPECT_NEAR(some.mean_nll, measure_perplexity(*rounded, tokens, options)->mean_nll, 1e-6);
  EXPECT_NEAR(some.reference_mean_nll, measure_perplexity(*exact, tokens, options)->mean_nll, 1e-6);
  // As much as 42 differences make that are each about the root of twice the divergence.
  EXPECT_GT(more.nll_difference_error, some.nll_difference_error);
  EXPECT_LT(std::abs(more.mean_nll - more.reference_mean_nll), 5 * more.nll_difference_error);
  EXPECT_NEAR(more.nll_difference_error, std::sqrt(2 * more.mean / 42), std::sqrt(2 * more.mean / 42));
  EXPECT_FALSE(measure_divergence(*rounded, *exact, {}, 512, std::span(tokens).first(1), options));
}

}  // namespace
}  // namespace pagoda
