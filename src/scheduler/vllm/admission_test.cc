#include "scheduler/vllm/admission.h"

#include <gtest/gtest.h>

#include "scheduler/group_ops.h"
#include "scheduler/vllm/parts_test_support.h"
#include "scheduler/vllm/standing.h"

namespace pagoda {
namespace {

const SchedulerConfig kSwapping{.max_num_seqs = 3,
                                .max_num_batched_tokens = 64,
                                .max_model_len = 64,
                                .preemption_mode = PreemptionMode::swap};

std::vector<GroupState> states(const testing::Parts& parts) {
  std::vector<GroupState> out;
  for (const auto& group : parts.groups) out.push_back(group->state);
  return out;
}

constexpr GroupState kWaiting = GroupState::waiting, kRunning = GroupState::running,
                     kSwapped = GroupState::swapped;

TEST(Admission, WhoeverIsSwappedOutComesBackFirst) {
  SchedulerConfig config = kSwapping;
  config.max_num_seqs = 2;
  testing::Parts parts(config, {.block_size = 4, .num_blocks = 8, .num_swap_blocks = 4});
  parts.add(8);
  parts.add(4);
  parts.begin_step();
  parts.admission.admit();
  parts.end_step();
  parts.begin_step();
  parts.preemption.preempt(*parts.groups[0]);
  parts.end_step();
  parts.add(4);
  EXPECT_EQ(states(parts), std::vector({kSwapped, kRunning, kWaiting}));
  parts.groups[0]->sequences.front()->tokens.resize(12, 7);
  parts.begin_step();
  parts.admission.admit();
  EXPECT_EQ(states(parts), std::vector({kRunning, kRunning, kWaiting}));
  EXPECT_EQ(parts.records.plan().batch().swap_in.size(), 2u);
  parts.end_step();
  parts.check_invariants();
}

TEST(Admission, NobodyIsSkipped) {
  testing::Parts parts(kSwapping, {.block_size = 4, .num_blocks = 8, .enable_prefix_caching = false});
  parts.add(8);
  parts.add(28);
  parts.add(4);
  parts.begin_step();
  parts.admission.admit();
  EXPECT_EQ(states(parts), std::vector({kRunning, kWaiting, kWaiting}));
  EXPECT_EQ(parts.kv.num_available_blocks(), 6) << "the second has given back what it tried to take";
  EXPECT_EQ(parts.groups[1]->retry_free_blocks, 7) << "and is not tried with fewer";
  parts.end_step();
  parts.check_invariants();
}

// Drafts need not leave tokens for those who cannot be admitted.
TEST(Admission, NoMoreAdaptersAreTogetherThanMayBe) {
  SchedulerConfig config = kSwapping;
  config.max_num_seqs = 4;
  config.max_adapters = 1;
  testing::Parts parts(config, {.block_size = 4, .num_blocks = 16, .num_swap_blocks = 8});
  const auto adapter = [](std::int32_t id) {
    RequestAdapter made;
    made.id = AdapterId{id};
    return std::make_shared<const RequestAdapter>(std::move(made));
  };
  for (const std::int32_t id : {1, 0, 1, 2, 0}) {
    SequenceGroup& group = parts.add(4);
    if (id > 0) group.request.adapter = adapter(id);
  }
  parts.begin_step();
  parts.admission.admit();
  parts.end_step();
  EXPECT_EQ(states(parts), std::vector({kRunning, kRunning, kRunning, kWaiting, kWaiting}))
      << "the same adapter joins, another waits, and nobody passes it";
  EXPECT_EQ(standing_of(*parts.groups[3], parts.records).code, StandingCode::adapters);
  for (const std::size_t ended : {0u, 2u}) {
    parts.begin_step();
    parts.preemption.preempt(*parts.groups[ended]);
    parts.end_step();
    for (const auto& sequence : parts.groups[ended]->sequences)
      finish_sequence(*sequence, FinishReason::abort, parts.kv);
    parts.records.queues.remove(*parts.groups[ended]);
  }
  parts.begin_step();
  parts.admission.admit();
  EXPECT_EQ(parts.groups[3]->state, kRunning);
  EXPECT_EQ(parts.groups[4]->state, kRunning);
  parts.end_step();
}

TEST(Admission, TellsTheBudgetThatTheQueueIsBlocked) {
  testing::Parts parts(kSwapping, {.block_size = 4, .num_blocks = 8, .enable_prefix_caching = false});
  parts.add(8);
  parts.add(28);
  parts.begin_step();
  EXPECT_EQ(parts.records.budget.for_drafts(parts.records.queues, 0), 64 - 36);
  parts.admission.admit();
  EXPECT_EQ(parts.records.budget.for_drafts(parts.records.queues, 0), 56 - 28) << "one was let in";
  parts.end_step();
  parts.begin_step();
  parts.admission.admit();
  EXPECT_EQ(parts.records.budget.for_drafts(parts.records.queues, 0), 64);
}

TEST(Admission, TheSameBeginningIsComputedOnce) {
  testing::Parts parts(kSwapping, {.block_size = 4, .num_blocks = 8});
  parts.add(9);
  Sequence& second = *parts.add(9).sequences.front();
  second.tokens = parts.groups[0]->sequences.front()->tokens;
  parts.begin_step();
  parts.admission.admit();
  EXPECT_EQ(states(parts), std::vector({kRunning, kWaiting}));
  parts.end_step();
  parts.begin_step();
  parts.admission.admit();
  EXPECT_EQ(parts.groups[1]->num_cached_tokens, 8);
  parts.end_step();
  parts.check_invariants();
}

// The plain rule: the step is the newcomers' where all of them are short and it was not so the last time.
TEST(Newcomers, OthersPauseButNotTwiceInARow) {
  SchedulerConfig config = kSwapping;
  config.policy = SchedulingPolicy::fair;
  config.max_num_seqs = 64;
  config.max_model_len = 128;
  testing::Parts parts(config, {.block_size = 4, .num_blocks = 512, .enable_prefix_caching = false});
  constexpr std::size_t kMany = 20;
  for (std::size_t i = 0; i < kMany; ++i) parts.add(3, 0, "many");
  const auto step = [&] {
    parts.begin_step();
    parts.newcomers.admit();
    const std::size_t in_turn = parts.records.queues.in_turn().size();
    for (std::size_t i = 0; i < in_turn; ++i) parts.filler.add(i, BatchFiller::Siblings::resume);
    parts.records.queues.set_num_in_turn(parts.records.queues.running().size());
    if (in_turn == parts.records.queues.running().size()) parts.admission.admit();
    parts.end_step();
    for (const SequenceGroup* group : parts.records.queues.running())
      if (group->sequences.front()->num_missing() == 0) group->sequences.front()->tokens.push_back(7);
    return in_turn;
  };
  step();
  bool was_short = false;
  std::size_t running = kMany;
  for (int i = 0; i < 12; ++i) {
    const bool comes = i % 5 != 4, is_short = i % 3 != 0;
    if (comes) parts.add(is_short ? 5 : 90, 0, std::string(1, static_cast<char>('a' + i)));
    running += comes ? 1 : 0;
    const bool pause = comes && is_short && !was_short;
    const std::size_t in_turn = step();
    EXPECT_EQ(in_turn < running, pause) << i;
    was_short = pause;
    parts.check_invariants();
  }
}

}  // namespace
}  // namespace pagoda
