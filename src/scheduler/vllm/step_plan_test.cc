// Goal: whatever is put in and taken out again, the batch is the list of what stayed. Method: random
// operations, and a plain list.
#include "scheduler/vllm/step_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "kv_cache/paged_kv_manager.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

struct Taken {
  Sequence* sequence;
  std::int32_t count;
};

void compare_plan(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  SequenceGroup group;
  for (int i = 0; i < 8; ++i) {
    Sequence& sequence = *group.sequences.emplace_back(std::make_unique<Sequence>());
    sequence.id = SequenceId{static_cast<std::uint64_t>(i)};
    sequence.tokens.assign(10, i);
  }
  PagedKvManager kv({.block_size = 4, .num_blocks = 4});
  StepPlan plan;
  for (int step = 0; step < 5; ++step) {
    EXPECT_FALSE(plan.in_flight());
    plan.begin(nullptr);
    EXPECT_TRUE(plan.in_flight() && plan.batch().empty() && plan.preempted().empty());
    std::vector<Taken> model, at_mark;
    StepPlan::Mark mark = plan.mark();
    std::size_t copies = 0, copies_at_mark = 0;
    for (int i = 0; i < 30; ++i) {
      switch (below(4)) {
        case 0:
          mark = plan.mark();
          at_mark = model;
          copies_at_mark = copies;
          break;
        case 1: {
          std::int32_t tokens = 0;
          for (std::size_t j = at_mark.size(); j < model.size(); ++j) tokens += model[j].count;
          ASSERT_EQ(plan.roll_back(mark), tokens);
          model = at_mark;
          copies = copies_at_mark;
          break;
        }
        default: {
          Sequence& sequence = *group.sequences[static_cast<std::size_t>(below(8))];
          const std::int32_t count = 1 + below(10);
          plan.take(group, sequence, count, 0, {});
          plan.batch().block_copies.push_back({});
          model.push_back({&sequence, count});
          ++copies;
        }
      }
      plan.check_invariants();
      ASSERT_EQ(plan.references().size(), model.size());
      ASSERT_EQ(plan.batch().block_copies.size(), copies);
      for (std::size_t j = 0; j < model.size(); ++j) {
        ASSERT_EQ(plan.references()[j].sequence, model[j].sequence);
        ASSERT_EQ(plan.batch().sequences[j].id, model[j].sequence->id);
        ASSERT_EQ(std::ssize(plan.batch().sequences[j].tokens), model[j].count);
        ASSERT_EQ(plan.batch().sequences[j].sample, model[j].count == 10);
      }
    }
    plan.add_preempted(group);
    EXPECT_EQ(plan.preempted().size(), 1u);
    plan.planned();
    plan.add_preempted(group);
    EXPECT_EQ(plan.preempted().size(), 1u) << "the step has been planned";
    for (const auto& sequence : group.sequences)
      EXPECT_EQ(sequence->num_in_flight, std::ranges::count(model, sequence.get(), &Taken::sequence));
    plan.end(kv);
    for (const auto& sequence : group.sequences) EXPECT_EQ(sequence->num_in_flight, 0);
  }
}

// Both plans name a sequence that ends while they are in flight: the later one's end frees its K/V.
TEST(StepPlans, WhatEndsKeepsItsKvUntilTheLastPlanWithItEnds) {
  PagedKvManager kv({.block_size = 4, .num_blocks = 4});
  SequenceGroup group;
  Sequence& sequence = *group.sequences.emplace_back(std::make_unique<Sequence>());
  sequence.id = SequenceId{1};
  sequence.state = SequenceState::resident;
  sequence.tokens.assign(5, 7);
  kv.add_sequence(sequence.id, sequence.tokens, CacheUse(""), false);
  StepPlans plans;
  StepPlan& first = plans.begin();
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.grow(sequence.id, 5, copies));
  first.take(group, sequence, 4, 0, kv.tables(sequence.id));
  first.planned();
  StepPlan& second = plans.begin();
  EXPECT_TRUE(second.ahead() && second.before() == &first && !first.ahead());
  EXPECT_EQ(&plans.oldest(), &first);
  EXPECT_EQ(&plans.latest(), &second);
  second.take(group, sequence, 1, 0, kv.tables(sequence.id));
  second.planned();
  finish_sequence(sequence, FinishReason::abort, kv);
  EXPECT_TRUE(sequence.finished() && sequence.keeps_kv);
  first.end(kv);
  EXPECT_EQ(&plans.oldest(), &second);
  EXPECT_EQ(kv.num_free_blocks(), 2);
  second.end(kv);
  EXPECT_EQ(kv.num_free_blocks(), 4);
  EXPECT_FALSE(plans.begin().ahead());
  plans.latest().planned();
  EXPECT_TRUE(plans.begin().ahead());
  plans.latest().planned();
  plans.drop(kv);
  EXPECT_TRUE(plans.latest().in_flight() && !plans.latest().ahead());
}

TEST(StepPlanProperty, AgreesWithAPlainList) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) compare_plan(seed);
}

}  // namespace
}  // namespace pagoda
