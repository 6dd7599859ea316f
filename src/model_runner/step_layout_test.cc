// Goal: the image of a step holds what its kernels read, at places that no batch moves, in both forms; and a
// batch that names what is not there is refused.
#include "model_runner/step_layout.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

using Ids = std::vector<std::int32_t>;

// Full attention in rows of two pages, a window of 8, and a state of two pages; 4 tokens a row.
KvGroupPlan three_groups() {
  KvGroupPlan plan;
  plan.groups = {{.tokens_per_row = 4, .pages_per_row = 2},
                 {.kind = KvKind::window, .window = 8, .tokens_per_row = 4},
                 {.kind = KvKind::state, .tokens_per_row = 4, .pages_per_row = 2}};
  plan.pieces = {{.page = 0, .bytes = 4}, {.page = 1, .bytes = 4}};
  return plan;
}

StepRules rules() {
  return {.max_tokens = 16, .max_seqs = 3, .max_context = 32, .max_positions = 64, .vocab_size = 100};
}

std::vector<BlockId> blocks(std::initializer_list<std::int32_t> ids) {
  std::vector<BlockId> out;
  for (const std::int32_t id : ids) out.push_back(BlockId{id});
  return out;
}

Ids list(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

// Two sequences: one token behind 13 others, whose window has given two rows back; and a prompt of three.
struct Batch {
  std::vector<TokenId> first_tokens = {50, 51}, second_tokens = {60, 61, 62};
  std::vector<BlockId> first_full = blocks({0, 10, 1, 11, 2, 12, 3, 13, 4, 14}),
                       first_window = blocks({22, 23, 24}), first_state = blocks({30, 31});
  std::vector<BlockId> second_full = blocks({5, 15}), second_window = blocks({25}),
                       second_state = blocks({32, 33});
  std::vector<KvTable> first_more = {{.blocks = first_window, .first_row = 1}, {.blocks = first_state}};
  std::vector<KvTable> second_more = {{.blocks = second_window}, {.blocks = second_state}};
  SamplingParams params;
  ScheduledBatch batch;
  Batch() {
    batch.sequences.resize(2);
    ScheduledSequence& first = batch.sequences[0];
    first.num_computed_tokens = 12;
    first.tokens = first.all_tokens = first_tokens;
    first.num_draft_tokens = 1;
    first.block_table = first_full;
    first.more_tables = first_more;
    first.sample = true;
    first.spec.params = &params;
    ScheduledSequence& second = batch.sequences[1];
    second.tokens = second.all_tokens = second_tokens;
    second.num_prompt_tokens = 3;
    second.block_table = second_full;
    second.more_tables = second_more;
    second.prompt_logprobs = 0;
    second.sample = true;
    second.spec.params = &params;
    batch.num_tokens = 5;
  }
};

constexpr StepIds kIds = {.num_blocks = 40, .num_table_ids = 40, .num_swap_blocks = 2};

StepLayout make(const StepRules& rules, const KvGroupPlan& plan = three_groups()) {
  auto layout = StepLayout::create(plan, rules);
  EXPECT_TRUE(layout);
  return *std::move(layout);
}

StepResult lay_out(StepLayout& layout, const ScheduledBatch& batch) {
  StepResult result;
  result.sequences.resize(batch.sequences.size());
  EXPECT_TRUE(layout.check(batch, kIds).ok()) << layout.check(batch, kIds).message();
  layout.lay_out(batch, result);
  return result;
}

TEST(StepLayout, HoldsRowsSequencesAndTables) {
  Batch data;
  data.batch.state_copies = {
      {.sequence = 1, .position = 2, .group = 2, .first_page = 1, .page = BlockId{37}},
      {.sequence = 1, .position = 2, .group = 2, .first_page = 0, .page = BlockId{35}}};
  StepLayout layout = make(rules());
  const StepResult result = lay_out(layout, data.batch);
  EXPECT_EQ(list(layout.token_ids()), (Ids{50, 51, 60, 61, 62}));
  EXPECT_EQ(list(layout.positions()), (Ids{12, 13, 0, 1, 2}));
  EXPECT_TRUE(layout.rotations().empty());
  EXPECT_TRUE(layout.token_types().empty());
  EXPECT_TRUE(layout.adapters().empty());
  EXPECT_EQ(list(layout.first_rows()), (Ids{0, 2}));
  EXPECT_EQ(list(layout.row_counts()), (Ids{2, 3}));
  EXPECT_EQ(list(layout.draft_counts()), (Ids{1, 0}));
  EXPECT_EQ(layout.context_len(0), 14);
  EXPECT_EQ(layout.context_len(1), 3);

  // Lanes: two of full attention, one of the window, two of the state. No more rows than the step reads.
  ASSERT_EQ(layout.num_lanes(), 5);
  EXPECT_EQ(layout.first_lane(1), 2);
  EXPECT_EQ(list(layout.table(0, 0)), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(list(layout.table(0, 1)), (Ids{10, 11, 12, 13}));
  EXPECT_EQ(list(layout.table(0, 2)), (Ids{22, 22, 23, 24}));  // row 0 was given back
  EXPECT_EQ(list(layout.table(0, 4)), (Ids{31}));
  EXPECT_EQ(list(layout.table(1, 0)), (Ids{5}));
  EXPECT_EQ(list(layout.table(1, 2)), (Ids{25}));
  EXPECT_EQ(list(layout.table(1, 3)), (Ids{32}));

  // Drawn behind both rows of the first; two prompt rows of the second are scored, the last one is drawn
  // from.
  EXPECT_EQ(list(layout.output_row_ids()), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(layout.output_rows()[1].draft, 1);
  EXPECT_EQ(layout.output_rows()[3].prompt_token, 62);
  EXPECT_EQ(result.sequences[1].prompt_logprobs.size(), 2u);

  // Both runs of the copy are one, in the order of its pages.
  ASSERT_EQ(layout.num_state_copies(), 1);
  EXPECT_EQ(layout.state_copy(0).sequence, 1);
  EXPECT_EQ(layout.state_copy(0).num_rows, 2);
  EXPECT_EQ(list(layout.state_copy(0).pages), (Ids{35, 37}));

  // Everything lies in the image, and the inputs of a later step with as many rows where this one's were.
  const auto image = layout.image();
  EXPECT_GE(layout.token_ids().data(), image.data());
  EXPECT_EQ(layout.tables().data() + layout.tables().size(), image.data() + image.size());
  const std::int32_t* const before[] = {layout.token_ids().data(), layout.output_row_ids().data(),
                                        layout.tables().data()};
  data.batch.state_copies.clear();
  data.batch.sequences[0].rotation = data.batch.sequences[1].rotation = 7;
  lay_out(layout, data.batch);
  EXPECT_EQ(before[0], layout.token_ids().data());
  EXPECT_EQ(before[1], layout.output_row_ids().data());
  EXPECT_EQ(before[2], layout.tables().data());
  EXPECT_EQ(list(layout.rotations()), (Ids{7, 7, 7, 7, 7}));
  EXPECT_EQ(layout.num_state_copies(), 0);
  data.batch.sequences[1].adapter = AdapterId{4};
  StepResult unchecked;
  unchecked.sequences.resize(2);
  layout.lay_out(data.batch, unchecked);
  EXPECT_EQ(list(layout.adapters()), (Ids{0, 0, 4, 4, 4}));
  // A step of fewer rows has a smaller image.
  const std::size_t size = layout.image().size();
  data.batch.sequences.pop_back();
  lay_out(layout, data.batch);
  EXPECT_LT(layout.image().size(), size);
  EXPECT_EQ(list(layout.rotations()), (Ids{7, 7}));
}

TEST(StepLayout, TokensThatTheBatchBeforeDrawsAreFilledInLater) {
  Batch data;
  const std::vector<TokenId> unknown = {kTokenInFlight};
  ScheduledSequence& first = data.batch.sequences[0];
  first.num_computed_tokens = 13;
  first.num_draft_tokens = 0;
  first.tokens = unknown;
  first.drawn_at = 3;
  StepLayout refuses = make(rules());
  EXPECT_FALSE(refuses.check(data.batch, kIds).ok());
  StepRules fills_in = rules();
  fills_in.fills_in = true;
  StepLayout layout = make(fills_in);
  lay_out(layout, data.batch);
  EXPECT_EQ(list(layout.token_ids()), (Ids{0, 60, 61, 62}));
  ASSERT_EQ(layout.drawn_tokens().size(), 1u);
  EXPECT_EQ(layout.drawn_tokens()[0].row, 0);
  EXPECT_EQ(layout.drawn_tokens()[0].sequence, 3);
  const std::vector<TokenId> two = {kTokenInFlight, 5};
  first.tokens = two;
  EXPECT_FALSE(layout.check(data.batch, kIds).ok());
}

TEST(StepLayout, TablesByRowAreOfOneWidth) {
  KvGroupPlan plan;
  plan.groups = one_full_group(4);
  Batch data;
  const std::vector<BlockId> table = blocks({0, 1, 2, 3, 9, 9});
  data.batch.sequences[0].block_table = table;
  for (ScheduledSequence& sequence : data.batch.sequences) sequence.more_tables = {};
  StepRules by_row = rules();
  by_row.tables = StepRules::Tables::by_row;
  StepLayout layout = make(by_row, plan);
  lay_out(layout, data.batch);
  EXPECT_EQ(layout.table_width(), 4);
  EXPECT_EQ(list(layout.tables()), (Ids{0, 1, 2, 3, 5, -1, -1, -1}));
  // Those to draw from come first.
  EXPECT_EQ(list(layout.output_row_ids()), (Ids{0, 1, 4, 2, 3}));
  EXPECT_EQ(layout.output_rows()[2].prompt_row, -1);
  EXPECT_EQ(layout.output_rows()[3].prompt_row, 0);
}

TEST(StepLayout, WholePromptsHaveBlocksOfTheirOwn) {
  StepRules whole = rules();
  whole.pools = true;
  whole.block_size = 2;
  StepLayout layout = make(whole, {});
  const std::vector<TokenId> tokens = {1, 2, 3};
  ScheduledBatch batch;
  batch.sequences.resize(2);
  for (ScheduledSequence& sequence : batch.sequences) {
    sequence.tokens = sequence.all_tokens = tokens;
    sequence.work = WorkKind::embed;
    sequence.whole_prompt = sequence.sample = true;
  }
  batch.sequences[1].second_text = 2;
  lay_out(layout, batch);
  EXPECT_EQ(list(layout.table(0, 0)), (Ids{0, 1}));
  EXPECT_EQ(list(layout.table(1, 0)), (Ids{2, 3}));
  EXPECT_EQ(list(layout.token_types()), (Ids{0, 0, 0, 0, 0, 1}));
  EXPECT_TRUE(layout.output_rows().empty());
}

TEST(StepLayout, RefusesWhatWouldReachOutside) {
  StepLayout layout = make(rules());
  const auto refused = [&](const auto& change) {
    Batch data;
    change(data.batch);
    return layout.check(data.batch, kIds).code() == StatusCode::internal;
  };
  EXPECT_FALSE(refused([](ScheduledBatch&) {}));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].tokens = {}; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].num_computed_tokens = -1; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].num_computed_tokens = 31; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].num_computed_tokens = 20; }));  // tables end
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].rotation = 65; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].adapter = AdapterId{1}; }));  // there is none
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].more_tables = {}; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].first_row = 1; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) {
    b.sequences[0].block_table = b.sequences[0].block_table.first(9);  // half a row
  }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].num_draft_tokens = 2; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[0].spec.params = nullptr; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[1].whole_prompt = true; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences[1].work = WorkKind::embed; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.sequences.resize(4, b.sequences[1]); }));  // at most 3
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.block_copies = {{BlockId{0}, BlockId{40}}}; }));
  EXPECT_TRUE(refused([](ScheduledBatch& b) { b.swap_in = {{BlockId{0}, SwapBlockId{2}}}; }));
  EXPECT_TRUE(refused(
      [](ScheduledBatch& b) { b.page_maps = {{.block = BlockId{0}, .page = BlockId{0}, .count = 1}}; }));
  const StateCopy whole = {.sequence = 0, .position = 13, .group = 2, .page = BlockId{34}, .count = 2};
  EXPECT_FALSE(refused([&](ScheduledBatch& b) { b.state_copies = {whole}; }));
  for (const auto change :
       {+[](StateCopy& copy) { copy.count = 1; }, +[](StateCopy& copy) { copy.group = 0; },
        +[](StateCopy& copy) { copy.position = 14; },  // behind the draft
        +[](StateCopy& copy) { copy.page = BlockId{39}; }, +[](StateCopy& copy) { copy.sequence = 2; }}) {
    StateCopy copy = whole;
    change(copy);
    EXPECT_TRUE(refused([&](ScheduledBatch& b) { b.state_copies = {copy}; }));
  }
  const std::vector<TokenId> outside = {1, 100};
  EXPECT_TRUE(refused([&](ScheduledBatch& b) { b.sequences[0].tokens = outside; }));
}

}  // namespace
}  // namespace pagoda
