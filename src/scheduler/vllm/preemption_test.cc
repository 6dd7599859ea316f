// Goal: whatever is preempted and brought back, every group is in the queue that the model has it in, its
// blocks are where the model has them, and the counts add up. Method: groups of one block a sequence; random
// preemptions, returns and surrenders.
#include "scheduler/vllm/preemption.h"

#include <gtest/gtest.h>

#include <random>

#include "scheduler/vllm/parts_test_support.h"

namespace pagoda {
namespace {

constexpr std::int32_t kSwapBlocks = 3;

void run_preemptions(std::uint64_t seed, PreemptionMode mode) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  testing::Parts parts(
      {.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64, .preemption_mode = mode},
      {.block_size = 4, .num_blocks = 8, .num_swap_blocks = kSwapBlocks, .enable_prefix_caching = false});
  constexpr std::size_t kGroups = 6;
  for (std::size_t i = 0; i < kGroups; ++i) parts.add(3);
  std::vector<GroupState> model(kGroups, GroupState::waiting);
  std::int64_t preempted = 0, out = 0, in = 0;
  for (int step = 0; step < 60; ++step) {
    parts.begin_step();
    if (below(2) == 0) {  // everything that there is room for comes
      const auto before = model;
      parts.admission.admit();
      for (std::size_t i = 0; i < kGroups; ++i) {
        in += before[i] == GroupState::swapped ? 1 : 0;
        model[i] = GroupState::running;
      }
    } else {
      for (std::size_t i = 0; i < kGroups; ++i) {
        SequenceGroup& group = *parts.groups[i];
        if (model[i] == GroupState::swapped && below(4) == 0) {
          parts.preemption.give_up_swapped(group);
          model[i] = GroupState::waiting;
        }
        if (model[i] != GroupState::running || below(2) == 0) continue;
        const bool may_swap = below(4) > 0;
        parts.preemption.preempt(group, may_swap ? Preemption::WayBack::any : Preemption::WayBack::recompute);
        const bool swaps = may_swap && mode == PreemptionMode::swap &&
                           std::ranges::count(model, GroupState::swapped) < kSwapBlocks;
        model[i] = swaps ? GroupState::swapped : GroupState::waiting;
        ++preempted;
        out += swaps ? 1 : 0;
        ASSERT_EQ(parts.records.plan().preempted().back(), &group);
      }
    }
    parts.end_step();
    for (std::size_t i = 0; i < kGroups; ++i) ASSERT_EQ(parts.groups[i]->state, model[i]) << i;
    ASSERT_EQ(parts.preemption.num_preemptions(), preempted);
    ASSERT_EQ(parts.swapping.num_groups_out(), out);
    ASSERT_EQ(parts.swapping.num_blocks_out(), out);
    ASSERT_EQ(parts.swapping.num_blocks_in(), in);
    ASSERT_EQ(parts.kv.num_free_blocks(), 8 - std::ranges::count(model, GroupState::running));
    ASSERT_EQ(parts.kv.swap().num_free_swap_blocks(),
              kSwapBlocks - std::ranges::count(model, GroupState::swapped));
    parts.check_invariants();
  }
  EXPECT_GT(preempted, 0);
}

TEST(PreemptionProperty, AgreesWithAPlainModel) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    run_preemptions(seed, PreemptionMode::swap);
    run_preemptions(seed, PreemptionMode::recompute);
  }
}

TEST(Preemption, WhicheverCostsLess) {
  for (const double per_token : {1.0, 3.0}) {
    testing::Parts parts({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64},
                         {.block_size = 4, .num_blocks = 8, .num_swap_blocks = 4});
    SequenceGroup& group = parts.add(4);
    parts.begin_step();
    parts.admission.admit();
    parts.end_step();
    parts.swapping.set_costs({.per_block_copied = 4, .per_token_recomputed = per_token});
    parts.begin_step();
    parts.preemption.preempt(group);
    EXPECT_EQ(group.state, per_token > 2 ? GroupState::swapped : GroupState::waiting);
  }
}

// A gang remembers how many blocks it had: it comes back when as many are there.
TEST(Preemption, AGangNeedsAllItsBlocksAgain) {
  testing::Parts parts({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64},
                       {.block_size = 4, .num_blocks = 8});
  SequenceGroup& group = parts.add(6);
  parts.begin_step();
  parts.admission.admit();
  parts.end_step();
  Sequence& child = parts.fork(group);
  child.tokens.resize(12, 9);
  parts.begin_step();
  std::int32_t count = child.num_missing();
  ASSERT_TRUE(parts.growth.try_grow(group, child, count));
  parts.preemption.preempt(group);
  EXPECT_EQ(group.resume_blocks, 4) << "2, and one more with a copy of the second";
}

}  // namespace
}  // namespace pagoda
