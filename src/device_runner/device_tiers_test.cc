// Goal: rows of a device's KV cache that went to host memory come back as they were, while steps compute and
// whatever the order of the streams; from a cancelled ticket on its pages are free; a lost device keeps and
// gives nothing. Method: sequences go on from rows that were stored and fetched to other pages, the old ones
// being overwritten, and get the bits of sequences whose rows stayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "device_runner/test_seeds.h"
#include "model_runner/host_tier.h"
#include "model_runner/test_sequences.h"
#include "model_runner/virtual_kv_plan.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

constexpr std::int64_t kPage = 4096, kPages = 40, kSlots = 4, kBlocksPerSlot = 10;

enum class Cache : std::uint8_t { paged, per_slot, per_layer };

// A runner with tiers that records their news.
class Tiered final : public ModelRunner {
 public:
  Tiered(Cache cache, std::uint64_t seed, GraphUse graphs, std::int64_t lost_launch = 0) {
    RunnerOptions options;
    options.dtype = "float32";
    options.max_context = 64;
    options.max_num_seqs = 8;
    auto source = ModelSource::open(fixture("qwen3"));
    CHECK(source.has_value());
    auto device = device::open_test_device({.granule = kPage, .seed = seed, .lost_launch = lost_launch});
    CHECK(device.has_value());
    auto made = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          *std::move(device), {.graphs = graphs});
    CHECK(made.has_value());
    runner = *std::move(made);
    if (cache == Cache::paged) {
      EXPECT_TRUE(runner->allocate_kv_cache(kPages).ok());
    } else {
      auto plan = plan_virtual_kv(runner->kv_page_layout(), runner->page_granule(),
                                  cache == Cache::per_slot ? KvTensors::per_slot : KvTensors::per_layer);
      CHECK(plan.has_value());
      block_size = plan->layout.block_size;
      const VirtualKvShape shape = {.num_slots = kSlots,
                                    .blocks_per_slot = kBlocksPerSlot,
                                    .page_bytes = plan->page_bytes,
                                    .num_tensors = plan->num_tensors};
      EXPECT_TRUE(runner->allocate_virtual_kv(plan->layout, shape, kPages, 0).ok());
    }
    std::vector<std::shared_ptr<KvTier>> tiers;
    tiers.push_back(*HostTier::create(400, runner->kv_block_bytes()));
    EXPECT_TRUE(runner->set_tiers(std::move(tiers)).ok());
  }

  StepResult run(const ScheduledBatch& batch) override {
    StepResult result = runner->run(batch);
    for (const TierDone& answer : result.tier_news.done) answers.push_back(answer);
    return result;
  }
  RotationRule rotation_rule() const override { return runner->rotation_rule(); }

  // Runs batches for news alone until there are so many answers.
  void wait_for(std::size_t count) {
    const ScheduledBatch nothing;
    while (answers.size() < count) ASSERT_TRUE(run(nothing).status.ok());
  }

  std::unique_ptr<DeviceModelRunner> runner;
  std::int32_t block_size = 16;
  std::vector<TierDone> answers;
};

TierRow tier_row_of(std::uint64_t name) {
  return {.key = {.chain = {name}, .group = 0}, .tokens = {static_cast<TokenId>(name)}, .use = name};
}

struct TieredSequences {
  TieredSequences() {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      std::vector<TokenId> tokens;
      for (std::uint64_t i = 0; i < 7 + 13 * seed; ++i)
        tokens.push_back(static_cast<TokenId>(3 + random_bits(seed, 1, i) % 60));
      TestSequence& sequence = all.emplace_back(greedy(tokens));
      sequence.params.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
      sequence.seed = seed;
    }
    for (TestSequence& sequence : all) pointers.push_back(&sequence);
  }
  std::vector<TestSequence> all;
  std::vector<TestSequence*> pointers;
};

constexpr std::size_t kTokens = 10;

const TieredSequences& stayed() {
  static const TieredSequences sequences = [] {
    TieredSequences made;
    Tiered runner(Cache::paged, 1, GraphUse::off);
    Driver driver(runner, 16);
    EXPECT_TRUE(driver.generate(made.pointers, kTokens).ok());
    return made;
  }();
  return sequences;
}

class DeviceTiers : public ::testing::TestWithParam<Cache> {};
INSTANTIATE_TEST_SUITE_P(Caches, DeviceTiers,
                         ::testing::Values(Cache::paged, Cache::per_slot, Cache::per_layer),
                         [](const auto& info) {
                           return info.param == Cache::paged      ? "Paged"
                                  : info.param == Cache::per_slot ? "PerSlot"
                                                                  : "PerLayer";
                         });

// Stores and fetches go with batches that compute; two sequences move while the third goes on.
void move_while_others_compute(Cache cache, std::uint64_t seed, GraphUse graphs) {
  Tiered runner(cache, seed, graphs);
  if (cache != Cache::paged) {
    ScheduledBatch maps;
    maps.page_maps = {{BlockId{0}, BlockId{0}, static_cast<std::int32_t>(kPages)}};
    ASSERT_TRUE(runner.run(maps).status.ok());
  }
  Driver driver(runner, runner.block_size);
  TieredSequences sequences;
  ASSERT_TRUE(driver.generate(sequences.pointers, 2).ok());
  ScheduledBatch out;
  std::uint64_t name = 0;
  for (const std::size_t who : {0, 1})
    for (const BlockId page : sequences.all[who].blocks) {
      ++name;
      out.tier_moves.stores.push_back(
          {.ticket = TierTicket{name}, .row = tier_row_of(name), .pages = {page}});
    }
  const std::uint64_t stored = name;
  ASSERT_TRUE(runner.run(out).status.ok());
  ASSERT_TRUE(driver.generate({sequences.pointers[2]}, 4).ok());
  runner.wait_for(stored);
  for (const TierDone& answer : runner.answers) EXPECT_TRUE(answer.ok);
  // Overwritten by a page of the third sequence.
  ScheduledBatch back;
  for (const TierStore& store : out.tier_moves.stores)
    back.block_copies.push_back({sequences.all[2].blocks.front(), store.pages.front()});
  std::uint64_t wanted = 0;
  auto next = static_cast<std::int32_t>(kPages);
  for (const std::size_t who : {0, 1})
    for (BlockId& block : sequences.all[who].blocks) {
      ++wanted;
      const BlockId page{--next};
      back.tier_moves.fetches.push_back({.ticket = TierTicket{100 + wanted},
                                         .row = tier_row_of(wanted),
                                         .pages = {page},
                                         .patience_s = 600});
      if (cache == Cache::paged)
        block = page;
      else  // shown where the old one was
        back.page_maps.push_back({block, page, 1});
    }
  ASSERT_TRUE(runner.run(back).status.ok());
  ASSERT_TRUE(driver.generate({sequences.pointers[2]}, 7).ok());
  runner.wait_for(2 * stored);
  for (const TierDone& answer : runner.answers) EXPECT_TRUE(answer.ok);
  ASSERT_TRUE(driver.generate(sequences.pointers, kTokens).ok());
  for (std::size_t i = 0; i < sequences.all.size(); ++i) {
    EXPECT_EQ(sequences.all[i].tokens, stayed().all[i].tokens);
    expect_same_draws(sequences.all[i], stayed().all[i]);
  }
}

TEST_P(DeviceTiers, SequencesGoOnFromRowsThatCameBack) {
  const std::uint64_t seeds = GetParam() == Cache::paged ? num_seeds() : 3;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    move_while_others_compute(GetParam(), seed, GraphUse::automatic);
  }
}

TEST_P(DeviceTiers, SoTheyDoWhereGraphsAreCompared) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) move_while_others_compute(GetParam(), seed, GraphUse::check);
}

// A step that is compared saves and restores the whole cache: no row may arrive meanwhile.
TEST(DeviceTiersOfOne, ComparedStepsLeaveRowsThatArriveAlone) {
  Tiered runner(Cache::paged, 5, GraphUse::check);
  Driver driver(runner, 16);
  TieredSequences sequences;
  TestSequence& sequence = sequences.all[2];
  ASSERT_TRUE(driver.generate({&sequence}, 2).ok());
  ScheduledBatch out;
  std::uint64_t ticket = 0;
  for (const std::size_t row : {1, 2})
    out.tier_moves.stores.push_back(
        {.ticket = TierTicket{++ticket}, .row = tier_row_of(row), .pages = {sequence.blocks[row - 1]}});
  ASSERT_TRUE(runner.run(out).status.ok());
  runner.wait_for(ticket);
  for (std::size_t count = 3; count <= 8; ++count) {
    ScheduledBatch back;  // one row and then the other, so that bytes change all the time
    for (std::uint64_t i = 0; i < 1000; ++i)
      back.tier_moves.fetches.push_back({.ticket = TierTicket{++ticket},
                                         .row = tier_row_of(1 + i % 2),
                                         .pages = {BlockId{static_cast<std::int32_t>(10 + i / 2 % 30)}},
                                         .patience_s = 600});
    ASSERT_TRUE(runner.run(back).status.ok());
    const Status status = driver.generate({&sequence}, count);
    ASSERT_TRUE(status.ok()) << status.message();
    runner.wait_for(ticket);
  }
}

// Whatever a tier has kept by the time of its cancel, it is what the page held until then.
TEST(DeviceTiersOfOne, NothingIsReadFromPagesOfCancelledTickets) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    Tiered runner(Cache::paged, seed, GraphUse::automatic);
    Driver driver(runner, 16);
    TieredSequences sequences;
    ASSERT_TRUE(driver.generate(sequences.pointers, 2).ok());
    const std::vector<BlockId> pages = sequences.all[2].blocks;
    constexpr std::uint64_t kCopies = 80;  // a page has so many, and some are still queued
    ScheduledBatch out, over;
    for (std::uint64_t copy = 0; copy < kCopies; ++copy)
      for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::uint64_t name = 1 + copy * pages.size() + i;
        out.tier_moves.stores.push_back(
            {.ticket = TierTicket{name}, .row = tier_row_of(name), .pages = {pages[i]}});
        over.tier_moves.cancels.push_back(TierTicket{name});
      }
    // Its own first page over the others.
    for (std::size_t i = 1; i < pages.size(); ++i) over.block_copies.push_back({pages[0], pages[i]});
    ASSERT_TRUE(runner.run(out).status.ok());
    ASSERT_TRUE(runner.run(over).status.ok());
    runner.wait_for(out.tier_moves.stores.size());
    std::set<std::uint64_t> kept;
    for (const TierDone& answer : runner.answers)
      if (answer.ok) kept.insert(static_cast<std::uint64_t>(answer.ticket));
    int checked = 0;
    for (std::uint64_t copy = kCopies; copy-- > 0;) {
      ScheduledBatch back;
      TestSequence sequence = sequences.all[2];
      for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::uint64_t name = 1 + copy * pages.size() + i;
        sequence.blocks[i] = BlockId{static_cast<std::int32_t>(30 + i)};
        if (kept.contains(name))
          back.tier_moves.fetches.push_back({.ticket = TierTicket{1000 + name},
                                             .row = tier_row_of(name),
                                             .pages = {sequence.blocks[i]},
                                             .patience_s = 600});
      }
      // The last that were read are those that came near the cancels.
      if (back.tier_moves.fetches.size() < pages.size() || ++checked > 4) continue;
      const std::size_t before = runner.answers.size();
      ASSERT_TRUE(runner.run(back).status.ok());
      runner.wait_for(before + pages.size());
      ASSERT_TRUE(driver.generate({&sequence}, 3).ok());
      EXPECT_EQ(sequence.sampled[2].token, stayed().all[2].sampled[2].token);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(sequence.sampled[2].logprob),
                std::bit_cast<std::uint32_t>(stayed().all[2].sampled[2].logprob));
    }
  }
}

TEST(DeviceTiersOfOne, MovesOfPagesThatAreNoneAreRefused) {
  Tiered runner(Cache::paged, 1, GraphUse::off);
  for (const TierStore& wrong :
       {TierStore{.ticket = TierTicket{1}, .row = tier_row_of(1), .pages = {BlockId{kPages}}},
        TierStore{.ticket = TierTicket{1}, .row = tier_row_of(1), .pages = {BlockId{0}, BlockId{1}}}}) {
    ScheduledBatch batch;
    batch.tier_moves.stores.push_back(wrong);
    EXPECT_EQ(runner.run(batch).status.code(), StatusCode::internal);
  }
}

TEST(DeviceTiersOfOne, ALostDeviceKeepsAndGivesNothing) {
  if (std::getenv("PAGODA_TEST_DEVICE") != nullptr) GTEST_SKIP() << "no GPU is lost for a test";
  for (std::int64_t launch = 200; launch < 203; ++launch) {
    Tiered runner(Cache::paged, static_cast<std::uint64_t>(launch), GraphUse::off, launch);
    Driver driver(runner, 16);
    TieredSequences sequences;
    Status status = ok_status();
    std::uint64_t name = 0;
    while (status.ok()) {
      ScheduledBatch moves;
      ++name;
      moves.tier_moves.stores.push_back(
          {.ticket = TierTicket{name}, .row = tier_row_of(name), .pages = {BlockId{0}}});
      moves.tier_moves.fetches.push_back({.ticket = TierTicket{1'000'000 + name},
                                          .row = tier_row_of(name),
                                          .pages = {BlockId{static_cast<std::int32_t>(kPages) - 1}},
                                          .patience_s = 600});
      if (const StepResult result = runner.run(moves); !result.status.ok()) break;
      status = driver.step(sequences.pointers, 4);
      for (TestSequence& sequence : sequences.all)
        if (sequence.caught_up()) sequence.tokens.push_back(5);
    }
    EXPECT_NE(driver.step(sequences.pointers, 4).message().find("is lost, as asked"), std::string::npos);
  }
}

}  // namespace
}  // namespace pagoda::device_runner
