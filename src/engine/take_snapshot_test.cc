// The engine's snapshot, and requests that are too large for the pool beside others.
#include "engine/take_snapshot.h"

#include <gtest/gtest.h>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::make_request;
using fake::Mode;
using fake::Options;
using fake::Rig;

const RequestSnapshot& find(const EngineSnapshot& snapshot, std::uint64_t id) {
  for (const RequestSnapshot& request : snapshot.requests) {
    if (request.id == RequestId{id}) return request;
  }
  ADD_FAILURE() << "request " << id << " is missing";
  return snapshot.requests.front();
}

Request gang(std::uint64_t id, std::vector<TokenId> prompt, std::int32_t n, std::int32_t max_tokens) {
  Request request = make_request(id, std::move(prompt), max_tokens);
  request.sampling.n = request.sampling.best_of = n;
  request.sampling.temperature = 1;
  request.sampling.seed = id;
  return request;
}

TEST(TakeSnapshot, TellsWhoHoldsWhatAndWhyOthersWait) {
  Options options;
  options.num_blocks = 10;
  options.num_swap_blocks = 10;
  options.engine.max_model_len = 40;
  options.engine.enable_prefix_caching = false;
  options.engine.preemption_mode = PreemptionMode::swap;
  Rig rig(options);
  rig.submit(gang(1, {1, 2, 3, 4, 5, 6, 7, 8}, 2, 20));
  rig.submit(make_request(2, {1, 2, 3, 4}, 30));
  rig.step();
  EngineSnapshot snapshot = rig.core->snapshot(SnapshotDetail::full);
  const RequestSnapshot first = find(snapshot, 1);
  EXPECT_EQ(first.state, GroupState::running);
  EXPECT_EQ(first.reason, "It is running.");
  const auto sequences = snapshot.sequences_of(first);
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_TRUE(std::ranges::equal(snapshot.blocks_of(sequences[0]), snapshot.blocks_of(sequences[1])));
  const auto ref_counts = snapshot.ref_counts_of(sequences[0]);
  EXPECT_EQ(std::vector<std::int32_t>(ref_counts.begin(), ref_counts.end()),
            std::vector<std::int32_t>({2, 2}));
  EXPECT_EQ(snapshot.usage.blocks_without_sharing - snapshot.usage.blocks_in_use, 2);

  while (rig.core->scheduler().counts().swapped_groups == 0) ASSERT_TRUE(rig.step());
  rig.submit(make_request(3, {9}, 5));
  snapshot = rig.core->snapshot(SnapshotDetail::full);
  const RequestSnapshot second = find(snapshot, 2), third = find(snapshot, 3);
  EXPECT_EQ(second.state, GroupState::swapped);
  EXPECT_EQ(second.num_preemptions, 1);
  EXPECT_GT(second.blocks_needed, snapshot.num_available_blocks);
  EXPECT_EQ(snapshot.sequences_of(second)[0].num_swapped, 10 - snapshot.num_free_swap_blocks);
  EXPECT_NE(second.reason.find("swapped out"), std::string::npos) << second.reason;
  EXPECT_NE(third.reason.find("resume first"), std::string::npos) << third.reason;
  rig.run_all();
  EXPECT_TRUE(rig.core->snapshot(SnapshotDetail::full).requests.empty());
}

TEST(TakeSnapshot, NamesTheReasonOfEveryMode) {
  const auto reason = [](Mode mode, std::int32_t max_num_seqs, std::int32_t num_blocks, std::uint64_t id) {
    Options options;
    options.mode = mode;
    options.num_blocks = num_blocks;
    options.engine.max_num_seqs = max_num_seqs;
    Rig rig(options);
    rig.submit(make_request(1, std::vector<TokenId>(12, 1), 4));
    rig.step();
    rig.submit(make_request(2, std::vector<TokenId>(12, 2), 4));
    rig.submit(make_request(3, {3}, 4));
    rig.step();
    std::string text = find(rig.core->snapshot(SnapshotDetail::full), id).reason;
    rig.run_all();
    return text;
  };
  EXPECT_EQ(reason(Mode::vllm, 1, 16, 2),
            "It waits: it runs up to 1 sequence(s), and 1 of max_num_seqs = 1 are taken.");
  EXPECT_EQ(reason(Mode::vllm, 8, 6, 2), "It waits: it needs 3 KV blocks and 2 are free.");
  EXPECT_EQ(reason(Mode::vllm, 8, 6, 3), "It waits: 1 request(s) are ahead of it, and none is skipped.");
  EXPECT_EQ(reason(Mode::orca, 8, 6, 2),
            "It waits for regions for its complete answers, 4 KV blocks or more; 2 are free.");
  EXPECT_EQ(reason(Mode::fastertransformer, 8, 16, 2),
            "It waits: the batch of 1 request(s) runs to its end first.");
}

TEST(TakeSnapshot, GaugesAddUpToThePool) {
  Options options;
  options.mode = Mode::orca;
  options.num_blocks = 16;
  Rig rig(options);
  rig.submit(make_request(1, std::vector<TokenId>(5, 1), 16));
  for (int i = 0; i < 8; ++i) rig.step();
  const KvUsage usage = rig.core->kv().inspection().usage();
  EXPECT_EQ(usage.token_slots + usage.reserved_slots + usage.internal_slots + usage.external_slots +
                rig.core->kv().num_free_blocks() * 4,
            usage.total_slots);
  const std::string text = rig.metrics.expose("pagoda", "model_name=\"m\"");
  EXPECT_NE(text.find("pagoda:kv_cache_slots_perc{model_name=\"m\",state=\"token\"} 0.1875\n"),
            std::string::npos)
      << text;  // 12 of 64
}

// Sums over the steps: the prompt's step with 3 blocks of its own, then two samples that share a prompt of
// two blocks, of which the second is copied once.
TEST(TakeSnapshot, TotalsAreTheSumOverTheSteps) {
  Rig rig({});
  rig.submit(gang(1, std::vector<TokenId>(6, 1), 2, 4));
  const std::int64_t steps = rig.run_all();
  const EngineTotals totals = rig.core->snapshot(SnapshotDetail::full).totals;
  EXPECT_EQ(totals.steps, steps);
  EXPECT_EQ(totals.steps, 4);
  EXPECT_EQ(totals.running_requests, 4);
  EXPECT_EQ(totals.batched_tokens, 6 + 2 * 3);
  EXPECT_EQ(totals.blocks_copied, 1);
  EXPECT_EQ(totals.usage.total_slots, 4 * 64 * 4);
  // Blocks in each step: the prompt's two; then one of two is copied; the ninth token takes a block of each.
  EXPECT_EQ(totals.usage.blocks_in_use, 2 + 3 + 3 + 5);
  EXPECT_EQ(totals.usage.blocks_without_sharing, 2 + 4 + 4 + 6);
  EXPECT_EQ(totals.usage.token_slots, 6 + (4 + 2 * 3) + (4 + 2 * 4) + (4 + 2 * 5));
  EXPECT_EQ(totals.usage.reserved_slots, 0) << "what is allocated for a step is filled by it";
}

// n = 128 of best_of 256 on a pool that holds a fraction of it: served, with one short request after the
// other beside it, each of which ends within a bounded number of steps.
TEST(ForkBomb, IsServedAndOthersKeepMoving) {
  for (const PreemptionMode mode : {PreemptionMode::swap, PreemptionMode::recompute}) {
    Options options;
    options.num_blocks = 80;
    options.num_swap_blocks = 80;
    options.engine.max_num_seqs = 300;
    options.engine.max_num_batched_tokens = 300;
    options.engine.preemption_mode = mode;
    Rig rig(options);
    Request bomb = gang(1, std::vector<TokenId>(10, 3), 128, 12);
    bomb.sampling.best_of = 256;
    const auto before = rig.submit(make_request(2, {1, 2, 3}, 20));
    const auto sink = rig.submit(bomb);
    const auto after = rig.submit(make_request(3, {4, 5, 6}, 4));
    std::int64_t steps = 0;
    while (!after->finished) ASSERT_TRUE(rig.step() && ++steps < 400);
    EXPECT_TRUE(before->finished);
    while (!sink->finished) ASSERT_TRUE(rig.step() && ++steps < 400);
    EXPECT_EQ(before->choices.at(0).tokens, fake::reference(make_request(2, {1, 2, 3}, 20), 0, 64).tokens);
    ASSERT_EQ(sink->choices.size(), 128u);
    std::vector<fake::Reference> wanted;
    for (std::int32_t i = 0; i < 256; ++i) wanted.push_back(fake::reference(bomb, i, 64));
    std::ranges::sort(
        wanted, [](const auto& a, const auto& b) { return a.cumulative_logprob > b.cumulative_logprob; });
    for (std::int32_t i = 0; i < 128; ++i)
      EXPECT_EQ(sink->choices.at(i).tokens, wanted[static_cast<std::size_t>(i)].tokens);
    rig.run_all();
  }
}

TEST(ForkBomb, WithWholeReservationsItIsRefusedByName) {
  Options options;
  options.mode = Mode::orca;
  options.num_blocks = 80;
  options.engine.max_num_seqs = 300;
  Rig rig(options);
  Request bomb = gang(1, std::vector<TokenId>(10, 3), 128, 12);
  bomb.sampling.best_of = 256;
  EXPECT_EQ(rig.core->submit(bomb, std::make_shared<fake::Collector>()).param(), "best_of");
}

}  // namespace
}  // namespace pagoda
