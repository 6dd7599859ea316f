#include "scheduler/vllm/growth.h"

#include <gtest/gtest.h>

#include "scheduler/vllm/parts_test_support.h"

namespace pagoda {
namespace {

const SchedulerConfig kRecomputing{.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64};

// Everybody who waits runs, and has computed all tokens.
void start(testing::Parts& parts) {
  parts.begin_step();
  parts.admission.admit();
  parts.end_step();
}

TEST(Growth, TheLatestGivesWay) {
  testing::Parts parts(kRecomputing, {.block_size = 4, .num_blocks = 3, .enable_prefix_caching = false});
  for (int i = 0; i < 3; ++i) parts.add(4);
  start(parts);
  for (int i = 0; i < 3; ++i)
    parts.groups[static_cast<std::size_t>(i)]->sequences.front()->tokens.push_back(7);
  parts.begin_step();
  std::int32_t count = 1;
  EXPECT_EQ(parts.growth.make_space(0, *parts.groups[0]->sequences.front(), count), Growth::Room::ok);
  EXPECT_EQ(parts.groups[2]->state, GroupState::waiting);
  EXPECT_EQ(parts.groups[1]->state, GroupState::running);
  EXPECT_EQ(parts.growth.make_space(1, *parts.groups[1]->sequences.front(), count),
            Growth::Room::group_preempted)
      << "nobody is behind it, and the first does not give way";
  EXPECT_EQ(parts.records.queues.running().size(), 1u);
  parts.check_invariants();
}

TEST(Growth, TheOldestAloneParksItsLastSequences) {
  testing::Parts parts(kRecomputing, {.block_size = 4, .num_blocks = 4, .enable_prefix_caching = false});
  SequenceGroup& group = parts.add(4);
  start(parts);
  for (int i = 0; i < 3; ++i) parts.fork(group);
  for (const auto& sequence : group.sequences) sequence->tokens.resize(5, 7);
  parts.begin_step();
  for (std::size_t i = 0; i < 4; ++i) {
    std::int32_t count = 1;
    if (group.sequences[i]->state != SequenceState::resident) continue;
    const Growth::Room room = parts.growth.make_space(0, *group.sequences[i], count);
    EXPECT_EQ(room, i < 3 ? Growth::Room::ok : Growth::Room::sequence_parked);
    if (i < 3)
      parts.records.plan().take(group, *group.sequences[i], 1, 0, parts.kv.tables(group.sequences[i]->id));
  }
  EXPECT_EQ(group.sequences[3]->state, SequenceState::parked) << "a block for the prompt, and three more";
  parts.end_step();
  // Once there is room, it shares the prompt again.
  parts.kv.free(group.sequences[2]->id);
  group.sequences[2]->state = SequenceState::finished;
  parts.begin_step();
  parts.growth.resume_siblings(0);
  EXPECT_EQ(group.sequences[3]->state, SequenceState::parked)
      << "a sample waits for room for its siblings, too";
  parts.kv.free(group.sequences[1]->id);
  group.sequences[1]->state = SequenceState::finished;
  parts.growth.resume_siblings(0);
  EXPECT_EQ(group.sequences[3]->state, SequenceState::resident);
  EXPECT_EQ(group.sequences[3]->num_computed_tokens, 4);
  parts.check_invariants();
}

// In a pool of as many rows as beams a beam that comes back finds no row for a copy of the state that it
// would share, and computes its own from the start.
TEST(Growth, TheLastRowIsForAStateOfItsOwn) {
  const KvGroup states{.kind = KvKind::state, .tokens_per_row = 4};
  testing::Parts parts(kRecomputing,
                       {.block_size = 4, .num_blocks = 8, .groups = std::vector<KvGroup>{states}});
  SequenceGroup& group = parts.add(8);
  group.lockstep = true;
  const SequenceId first = group.sequences.front()->id;
  parts.begin_step();
  parts.admission.admit();
  std::vector<StateCopy> copies;
  parts.kv.copy_states(first, 0, 8, copies);
  parts.end_step();
  for (int i = 0; i < 6; ++i) parts.fork(group);
  group.max_live_sequences = 8;
  for (const auto& sequence : group.sequences) sequence->tokens.push_back(7);
  parts.begin_step();
  for (const auto& sequence : group.sequences) {
    std::int32_t count = 1;
    ASSERT_EQ(parts.growth.make_space(0, *sequence, count), Growth::Room::ok);
    parts.records.plan().take(group, *sequence, 1, 0, parts.kv.tables(sequence->id));
  }
  parts.end_step();
  ASSERT_GT(parts.kv.sharing().shareable(first, 8), 0);
  auto parked = std::make_unique<Sequence>(*group.sequences.front());
  parked->id = parts.ids.next();
  parked->state = SequenceState::parked;
  parked->num_computed_tokens = 0;
  const Sequence& last = *group.sequences.emplace_back(std::move(parked));
  parts.begin_step();
  parts.growth.resume_siblings(0);
  EXPECT_EQ(last.state, SequenceState::resident);
  EXPECT_EQ(last.num_computed_tokens, 0);
  EXPECT_EQ(parts.kv.num_free_blocks(), 0);
}

TEST(Growth, AsManyTokensAsThereIsRoomFor) {
  testing::Parts parts(kRecomputing, {.block_size = 4, .num_blocks = 8, .enable_prefix_caching = false});
  SequenceGroup& group = parts.add(20);
  Sequence& sequence = *group.sequences.front();
  parts.kv.add_sequence(sequence.id, sequence.tokens, "", true);
  std::int32_t count = 20;
  EXPECT_TRUE(parts.growth.try_grow(group, sequence, count));
  EXPECT_EQ(count, 20);
  EXPECT_EQ(parts.kv.num_free_blocks(), 3);
  sequence.num_computed_tokens = 20;
  parts.kv.computed(sequence.id, sequence.tokens, 20);
  sequence.tokens.resize(40, 7);
  count = 20;
  EXPECT_FALSE(parts.growth.try_grow(group, sequence, count)) << "it has to hold all that is known";
  EXPECT_EQ(parts.kv.num_free_blocks(), 3);
}

// Beams are accepted by what all of them hold in small steps, so none is promised blocks for large ones.
TEST(Growth, BeamsArePromisedSmallSteps) {
  const KvGroup window{.kind = KvKind::window, .window = 4, .tokens_per_row = 4};
  for (const bool beams : {false, true}) {
    testing::Parts parts(kRecomputing, {.block_size = 4,
                                        .num_blocks = 32,
                                        .enable_prefix_caching = false,
                                        .groups = std::vector<KvGroup>{window}});
    SequenceGroup& group = parts.add(40);
    group.lockstep = beams;
    Sequence& sequence = *group.sequences.front();
    parts.kv.add_sequence(sequence.id, sequence.tokens, "", true);
    std::int32_t count = 16;
    EXPECT_TRUE(parts.growth.try_grow(group, sequence, count));
    EXPECT_EQ(count, 16);
    EXPECT_EQ(parts.kv.num_free_blocks(), 28);
    EXPECT_EQ(parts.kv.num_free_blocks() - parts.kv.num_available_blocks(), beams ? 0 : 2) << beams;
  }
}

}  // namespace
}  // namespace pagoda
