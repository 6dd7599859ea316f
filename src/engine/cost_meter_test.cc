#include "engine/cost_meter.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

ScheduledBatch sized_batch(std::size_t sequences, std::int32_t tokens, std::size_t swaps) {
  ScheduledBatch batch;
  batch.sequences.resize(sequences);
  batch.num_tokens = tokens;
  batch.swap_out.resize(swaps);
  return batch;
}

TEST(CostMeter, LearnsCopiesFromSwapsAndTokensFromPrompts) {
  CostMeter meter({.per_block_copied = 1, .per_token_recomputed = 0});
  StepResult result;
  meter.on_step(sized_batch(8, 8, 0), result, 4.0);
  EXPECT_EQ(meter.costs().per_token_recomputed, 0) << "decodes say nothing about recomputation";
  EXPECT_EQ(meter.costs().per_block_copied, 1) << "the estimate stands until something is copied";
  meter.on_step(sized_batch(1, 100, 0), result, 2.0);
  EXPECT_DOUBLE_EQ(meter.costs().per_token_recomputed, 0.02) << "the first measurement replaces no estimate";
  result.swap_seconds = 1.0;
  for (int i = 0; i < 50; ++i) meter.on_step(sized_batch(1, 100, 10), result, 2.0);
  EXPECT_NEAR(meter.costs().per_block_copied, 0.1, 1e-3);
  EXPECT_NEAR(meter.costs().per_token_recomputed, 0.01, 1e-3) << "the time of the copies is not counted";
}

TEST(PreemptionCosts, SwappingPaysForBothWays) {
  const PreemptionCosts costs{.per_block_copied = 1, .per_token_recomputed = 0.25};
  EXPECT_TRUE(swap_is_cheaper(costs, 1, 16));
  EXPECT_FALSE(swap_is_cheaper(costs, 2, 16)) << "a tie is recomputed: it takes no swap space";
  EXPECT_FALSE(swap_is_cheaper({}, 1, 16)) << "nothing measured yet";
}

}  // namespace
}  // namespace pagoda
