#include "scheduler/vllm/batch_filler.h"

#include <gtest/gtest.h>

#include "scheduler/vllm/parts_test_support.h"

namespace pagoda {
namespace {

constexpr auto kResume = BatchFiller::Siblings::resume;

std::vector<std::int32_t> counts(const testing::Parts& parts) {
  std::vector<std::int32_t> out;
  for (const ScheduledSequence& sequence : parts.records.plan().batch().sequences)
    out.push_back(static_cast<std::int32_t>(sequence.tokens.size()));
  return out;
}

using Counts = std::vector<std::int32_t>;

TEST(BatchFiller, AGroupThatGivesWayLeavesNothingBehind) {
  testing::Parts parts({.max_num_seqs = 8, .max_num_batched_tokens = 16, .max_model_len = 64},
                       {.block_size = 4, .num_blocks = 3, .enable_prefix_caching = false});
  parts.add(4);
  SequenceGroup& second = parts.add(4);
  parts.begin_step();
  parts.admission.admit();
  parts.end_step();
  parts.fork(second);
  for (const auto& group : parts.groups)
    for (const auto& sequence : group->sequences) sequence->tokens.push_back(7);
  parts.begin_step();
  parts.filler.add(1, kResume);
  EXPECT_EQ(second.state, GroupState::waiting) << "its first sequence got the last block";
  EXPECT_EQ(counts(parts), Counts());
  EXPECT_EQ(parts.records.budget.left(), 16);
  parts.filler.add(0, kResume);
  EXPECT_EQ(counts(parts), Counts({1}));
  EXPECT_EQ(parts.records.budget.left(), 15);
  parts.end_step();
  parts.check_invariants();
}

TEST(BatchFiller, BeamsTakeTheirStepTogetherOrNotAtAll) {
  testing::Parts parts({.max_num_seqs = 8, .max_num_batched_tokens = 16, .max_model_len = 64},
                       {.block_size = 4, .num_blocks = 16, .enable_prefix_caching = false});
  parts.add(4);
  SequenceGroup& beams = parts.add(4);
  parts.begin_step();
  parts.admission.admit();
  parts.end_step();
  parts.fork(beams);
  beams.lockstep = true;
  for (const auto& group : parts.groups)
    for (const auto& sequence : group->sequences) sequence->tokens.push_back(7);
  beams.sequences[1]->tokens.push_back(8);
  parts.begin_step();
  parts.filler.add(1, kResume);
  EXPECT_EQ(counts(parts), Counts({1})) << "the one that misses two gets on, up to its last token";
  parts.end_step();
  parts.records.budget.set_limit(2);
  parts.begin_step();
  parts.filler.add(0, kResume);
  parts.filler.add(1, kResume);
  EXPECT_EQ(counts(parts), Counts({1})) << "one token is left for two beams";
}

}  // namespace
}  // namespace pagoda
