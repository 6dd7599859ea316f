#include "scheduler/vllm/arrivals.h"

#include <gtest/gtest.h>

#include "scheduler/group_ops.h"
#include "scheduler/vllm/parts_test_support.h"

namespace pagoda {
namespace {

class ArrivingGroups : public ::testing::Test {
 protected:
  void step() {
    parts.begin_step();
    parts.arrivals.settle();
    parts.admission.admit();
    parts.check_invariants();
    parts.end_step();
  }
  void answer(bool ok) {
    TierMoves moves;
    parts.kv.tiering().take(moves);
    TierNews news;
    for (const TierStore& store : moves.stores) news.done.push_back({store.ticket, ok});
    for (const TierFetch& fetch : moves.fetches) news.done.push_back({fetch.ticket, ok});
    parts.kv.tiering().on_news(news);
  }
  void serve(SequenceGroup& group) {
    step();
    ASSERT_EQ(group.state, GroupState::running);
    parts.records.queues.remove(group);
    finish_sequence(*group.sequences.front(), FinishReason::stop, parts.kv);
    group.state = GroupState::finished;
  }
  // Waits, with a prompt of 20 tokens whose rows are in a tier alone.
  SequenceGroup& add_with_rows_in_a_tier() {
    SequenceGroup& first = parts.add(20);
    serve(first);
    answer(true);
    serve(parts.add(60));  // takes all blocks but one
    answer(false);
    SequenceGroup& again = parts.add(20);
    again.request.prompt_token_ids = again.sequences.front()->tokens = first.request.prompt_token_ids;
    return again;
  }

  testing::Parts parts{{.max_num_seqs = 2, .max_num_batched_tokens = 64, .max_model_len = 64},
                       {.block_size = 4, .num_blocks = 16, .tiers = true, .model_id = "m"}};
};

TEST_F(ArrivingGroups, HoldAPlaceAndLetOthersPass) {
  SequenceGroup& arriving = add_with_rows_in_a_tier();
  SequenceGroup &second = parts.add(8), &third = parts.add(8);
  step();
  EXPECT_EQ(arriving.state, GroupState::arriving);
  EXPECT_EQ(arriving.sequences.front()->state, SequenceState::arriving);
  EXPECT_EQ(second.state, GroupState::running);
  EXPECT_EQ(third.state, GroupState::waiting) << "two sequences at most";
  step();
  EXPECT_EQ(arriving.state, GroupState::arriving) << "nothing has come";
  answer(true);
  step();
  EXPECT_EQ(arriving.state, GroupState::running);
  EXPECT_EQ(arriving.num_cached_tokens, 16);
}

TEST_F(ArrivingGroups, ComputeWhatIsLostAndDoNotAskTwice) {
  SequenceGroup& group = add_with_rows_in_a_tier();
  step();
  ASSERT_EQ(group.state, GroupState::arriving);
  answer(false);
  step();
  EXPECT_EQ(group.state, GroupState::running);
  EXPECT_LE(group.num_cached_tokens, 4);
}

TEST_F(ArrivingGroups, GiveWayToTheOldestThatRuns) {
  SequenceGroup& first = parts.add(8);
  parts.records.queues.remove(first);
  SequenceGroup& arriving = add_with_rows_in_a_tier();
  parts.records.queues.insert_waiting(first);
  step();
  ASSERT_EQ(first.state, GroupState::running);
  ASSERT_EQ(arriving.state, GroupState::arriving);
  parts.begin_step();
  EXPECT_EQ(parts.preemption.victim_after(0), &arriving);
  parts.preemption.preempt(arriving);
  parts.check_invariants();
  EXPECT_EQ(arriving.state, GroupState::waiting);
  EXPECT_FALSE(arriving.asked_tiers);
  EXPECT_EQ(parts.kv.parts().pool.num_arriving(), 0);
  parts.end_step();
}

}  // namespace
}  // namespace pagoda
