// The runner behind an AsyncModelRunner sees the batches that it would have seen one by one, with every token
// known, whatever the engine does with its own copies meanwhile.
#include "model_runner/async_model_runner.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace pagoda {
namespace {

// Draws the sum of all tokens so far, and notes what it was given.
class Adder final : public ModelRunner {
 public:
  struct Seen {
    std::vector<std::vector<TokenId>> tokens, all_tokens;
    std::vector<std::vector<BlockId>> tables, more_tables;
  };
  StepResult run(const ScheduledBatch& batch) override {
    StepResult out;
    Seen& now = seen.emplace_back();
    for (const ScheduledSequence& sequence : batch.sequences) {
      EXPECT_EQ(sequence.drawn_at, -1);
      now.tokens.emplace_back(sequence.tokens.begin(), sequence.tokens.end());
      now.all_tokens.emplace_back(sequence.all_tokens.begin(), sequence.all_tokens.end());
      now.tables.emplace_back(sequence.block_table.begin(), sequence.block_table.end());
      for (const KvTable& table : sequence.more_tables)
        now.more_tables.emplace_back(table.blocks.begin(), table.blocks.end());
      TokenId sum = 0;
      for (const TokenId token : sequence.all_tokens) sum += token;
      out.sequences.emplace_back();
      if (sequence.sample) out.sequences.back().candidates.push_back({.token = sum});
    }
    if (std::cmp_equal(seen.size(), fails_at)) out.status = internal_error("lost");
    if (std::cmp_equal(seen.size(), throws_at)) throw std::runtime_error("out of memory");
    return out;
  }
  std::vector<Seen> seen;
  int fails_at = 0, throws_at = 0;
};

struct Step {
  explicit Step(std::vector<std::vector<TokenId>> known) : tokens(std::move(known)) {
    blocks.assign(3, BlockId{7});
    tables = {{.blocks = blocks, .first_row = 1}};
    for (const std::vector<TokenId>& all : tokens) {
      ScheduledSequence& sequence = batch.sequences.emplace_back();
      sequence.tokens = sequence.all_tokens = all;
      sequence.block_table = blocks;
      sequence.more_tables = tables;
      sequence.sample = true;
    }
  }
  // The sequence computes what the batch before it draws for its sequence number `place`.
  void follow(std::size_t index, std::int32_t place) {
    ScheduledSequence& sequence = batch.sequences[index];
    sequence.num_computed_tokens = static_cast<std::int32_t>(sequence.all_tokens.size());
    sequence.tokens = std::span(&kTokenInFlight, 1);
    sequence.drawn_at = place;
  }
  void forget() {  // as the engine goes on
    for (std::vector<TokenId>& all : tokens) std::ranges::fill(all, -9);
    std::ranges::fill(blocks, BlockId{-9});
    tables.clear();
    batch = {};
  }
  std::vector<std::vector<TokenId>> tokens;
  std::vector<BlockId> blocks;
  std::vector<KvTable> tables;
  ScheduledBatch batch;
};

struct Rig {
  Rig() : owned(std::make_unique<Adder>()), adder(owned.get()), runner(std::move(owned)) {}
  std::unique_ptr<Adder> owned;
  Adder* adder;
  AsyncModelRunner runner;
};

TEST(AsyncModelRunner, FillsInWhatTheBatchBeforeDrew) {
  Rig rig;
  Step first({{1, 2}, {10, 20, 30}});
  rig.runner.submit(first.batch);
  first.forget();
  Step second({{5}, {10, 20, 30}, {1, 2}});
  second.follow(1, 1);
  second.follow(2, 0);
  rig.runner.submit(second.batch);
  second.forget();
  const StepResult one = rig.runner.wait();
  ASSERT_EQ(one.sequences.size(), 2u);
  EXPECT_EQ(one.sequences[0].candidates[0].token, 3);
  EXPECT_EQ(one.sequences[1].candidates[0].token, 60);
  Step third({{1, 2, 3}});
  third.follow(0, 2);
  rig.runner.submit(third.batch);
  const StepResult two = rig.runner.wait();
  ASSERT_EQ(two.sequences.size(), 3u);
  EXPECT_EQ(two.sequences[1].candidates[0].token, 120);
  EXPECT_EQ(two.sequences[2].candidates[0].token, 6);
  EXPECT_EQ(rig.runner.wait().sequences[0].candidates[0].token, 12);
  rig.runner.settle();
  const Adder::Seen& seen = rig.adder->seen[1];
  EXPECT_EQ(seen.tokens, (std::vector<std::vector<TokenId>>{{5}, {60}, {3}}));
  EXPECT_EQ(seen.all_tokens, (std::vector<std::vector<TokenId>>{{5}, {10, 20, 30, 60}, {1, 2, 3}}));
  for (const auto& table : seen.tables) EXPECT_EQ(table, std::vector<BlockId>(3, BlockId{7}));
  ASSERT_EQ(seen.more_tables.size(), 3u);
  for (const auto& table : seen.more_tables) EXPECT_EQ(table, std::vector<BlockId>(3, BlockId{7}));
}

TEST(AsyncModelRunner, RunsNothingBehindAFailure) {
  for (const bool throws : {false, true}) {
    Rig rig;
    (throws ? rig.adder->throws_at : rig.adder->fails_at) = 1;
    Step first({{1, 2}}), second({{1, 2}});
    second.follow(0, 0);
    rig.runner.submit(first.batch);
    rig.runner.submit(second.batch);
    EXPECT_EQ(rig.runner.wait().status.code(), StatusCode::internal);
    EXPECT_EQ(rig.runner.wait().status.code(), StatusCode::internal);
    rig.runner.settle();
    EXPECT_EQ(rig.adder->seen.size(), 1u);
  }
}

TEST(AsyncModelRunner, EndsOnceWhatItWasGivenHasRun) {
  for (int count = 0; count <= 2; ++count) {
    Rig rig;
    Step first({{1, 2}}), second({{1, 2}});
    if (count > 0) rig.runner.submit(first.batch);
    if (count > 1) rig.runner.submit(second.batch);
  }
}

}  // namespace
}  // namespace pagoda
