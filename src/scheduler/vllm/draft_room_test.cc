#include "scheduler/vllm/draft_room.h"

#include <gtest/gtest.h>

#include "scheduler/vllm/parts_test_support.h"

namespace pagoda {
namespace {

// One group that decodes, with four drafts, under this budget and pool.
struct Decoding {
  Decoding(std::int32_t budget, std::int32_t num_blocks)
      : parts({.max_num_seqs = 8, .max_num_batched_tokens = budget, .max_model_len = 64},
              {.block_size = 4, .num_blocks = num_blocks, .enable_prefix_caching = false}),
        group(parts.add(4)),
        sequence(*group.sequences.front()) {
    parts.begin_step();
    parts.admission.admit();
    parts.end_step();
    sequence.tokens.push_back(7);
    sequence.draft = {1, 2, 3, 4};
  }
  // Drafts that the step takes.
  std::int32_t step() {
    parts.begin_step();
    parts.filler.add(0, BatchFiller::Siblings::resume);
    parts.check_invariants();
    return parts.records.plan().batch().sequences.at(0).num_draft_tokens;
  }
  testing::Parts parts;
  SequenceGroup& group;
  Sequence& sequence;
};

TEST(DraftRoom, AsManyAsTokensAndBlocksAllow) {
  EXPECT_EQ(Decoding(64, 64).step(), 4);
  EXPECT_EQ(Decoding(4, 64).step(), 3);
  EXPECT_EQ(Decoding(64, 3).step(), 3) << "the next block is kept for the sequence itself";
  Decoding waited(16, 64);
  waited.parts.add(13);
  EXPECT_EQ(waited.step(), 2) << "the prompt that waits is not put off";
  waited.parts.records.plan().planned();
  waited.parts.records.plan().end(waited.parts.kv);
  waited.parts.records.budget.set_queue_blocked(true);
  EXPECT_EQ(waited.step(), 4) << "it cannot be admitted";
}

TEST(DraftRoom, KeepsWhatBecameTokensAndGivesUpTheRest) {
  Decoding of(64, 64);
  ASSERT_EQ(of.step(), 4);
  of.parts.end_step();
  EXPECT_EQ(of.parts.kv.num_free_blocks(), 64 - 3);
  std::vector<Change> changes(2);
  for (Change& change : changes)
    change = {.verb = Verb::append, .group = &of.group, .sequence = &of.sequence};
  of.parts.drafts.keep_accepted(of.parts.records.plan(), changes);
  EXPECT_EQ(of.sequence.num_computed_tokens, 6) << "one draft of two appended tokens";
  of.sequence.tokens.insert(of.sequence.tokens.end(), {1, 9});
  of.parts.drafts.drop_rejected(of.parts.records.plan());
  EXPECT_TRUE(of.sequence.draft.empty());
  EXPECT_EQ(of.parts.kv.num_free_blocks(), 64 - 2);
  EXPECT_EQ(of.sequence.num_missing(), 1);
}

}  // namespace
}  // namespace pagoda
