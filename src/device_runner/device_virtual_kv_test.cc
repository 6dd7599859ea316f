// Goal: a virtual cache on a device gives the bits of the paged one, with all layers of a slot in one tensor
// and with a tensor for each, wherever its pages are shown, when they move, and when they are mapped beside a
// step. Method: the same sequences over both, with log-probabilities compared bit by bit.
#include <gtest/gtest.h>

#include "base/random.h"
#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "device_runner/test_seeds.h"
#include "model_runner/test_sequences.h"
#include "model_runner/virtual_kv_plan.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

constexpr std::int64_t kVirtualPage = 4096, kVirtualPages = 24, kVirtualSlots = 4, kBlocksPerVirtualSlot = 6;

std::unique_ptr<DeviceModelRunner> open_virtual(std::uint64_t seed, GraphUse graphs = GraphUse::automatic) {
  RunnerOptions options;
  options.dtype = "float32";
  options.max_context = 48;
  options.max_num_seqs = 8;
  auto source = ModelSource::open(fixture("qwen3"));
  CHECK(source.has_value());
  auto device = device::open_test_device({.granule = kVirtualPage, .seed = seed});
  CHECK(device.has_value());
  auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          *std::move(device), {.graphs = graphs});
  CHECK(runner.has_value());
  return *std::move(runner);
}

struct Virtual {
  Virtual(KvTensors tensors, std::uint64_t seed) : runner(open_virtual(seed)) {
    auto plan = plan_virtual_kv(runner->kv_page_layout(), runner->page_granule(), tensors);
    CHECK(plan.has_value());
    const VirtualKvShape shape = {.num_slots = kVirtualSlots,
                                  .blocks_per_slot = kBlocksPerVirtualSlot,
                                  .page_bytes = plan->page_bytes,
                                  .num_tensors = plan->num_tensors};
    const Status made = runner->allocate_virtual_kv(plan->layout, shape, kVirtualPages, 8);
    EXPECT_TRUE(made.ok()) << made.message();
    block_size = plan->layout.block_size;
  }
  // Block b shows page (b * 7 + `turn`) % kVirtualPages, each in a mapping of its own.
  static std::vector<PageMapping> scattered(std::int32_t turn, std::int32_t blocks = kVirtualPages) {
    std::vector<PageMapping> maps;
    for (std::int32_t b = 0; b < blocks; ++b)
      maps.push_back({BlockId{b}, BlockId{(b * 7 + turn) % static_cast<std::int32_t>(kVirtualPages)}, 1});
    return maps;
  }
  std::unique_ptr<DeviceModelRunner> runner;
  std::int32_t block_size = 0;
};

TestSequence sequence_of(std::uint64_t seed) {
  std::vector<TokenId> tokens;
  for (std::uint64_t i = 0; i < 7 + 11 * seed; ++i)
    tokens.push_back(static_cast<TokenId>(3 + random_bits(seed, 1, i) % 60));
  TestSequence sequence = greedy(tokens);
  sequence.params.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
  sequence.params.logprobs = 5;
  sequence.seed = seed;
  return sequence;
}

struct VirtualSequences {
  VirtualSequences() {
    for (std::uint64_t i = 0; i < 3; ++i) all.push_back(sequence_of(i));
    for (TestSequence& sequence : all) pointers.push_back(&sequence);
  }
  std::vector<TestSequence> all;
  std::vector<TestSequence*> pointers;
};

void expect_same_virtual(const VirtualSequences& got, const VirtualSequences& wanted) {
  for (std::size_t i = 0; i < wanted.all.size(); ++i) {
    EXPECT_EQ(got.all[i].tokens, wanted.all[i].tokens);
    expect_same_draws(got.all[i], wanted.all[i]);
  }
}

const VirtualSequences& paged() {
  static const VirtualSequences sequences = [] {
    VirtualSequences made;
    const auto runner = open_virtual(1, GraphUse::off);
    EXPECT_TRUE(runner->allocate_kv_cache(24).ok());
    Driver driver(*runner, 16);
    EXPECT_TRUE(driver.generate(made.pointers, 6).ok());
    return made;
  }();
  return sequences;
}

class DeviceVirtualKv : public ::testing::TestWithParam<KvTensors> {};
INSTANTIATE_TEST_SUITE_P(Tensors, DeviceVirtualKv,
                         ::testing::Values(KvTensors::per_slot, KvTensors::per_layer), [](const auto& info) {
                           return info.param == KvTensors::per_slot ? "PerSlot" : "PerLayer";
                         });

TEST_P(DeviceVirtualKv, BitsAreThoseOfThePagedCache) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Virtual cache(GetParam(), seed);
    ScheduledBatch maps;
    maps.page_maps = Virtual::scattered(static_cast<std::int32_t>(seed));
    ASSERT_TRUE(cache.runner->run(maps).status.ok());
    Driver driver(*cache.runner, cache.block_size);
    VirtualSequences sequences;
    const Status status = driver.generate(sequences.pointers, 6, seed == 0 ? 1 << 20 : 5);
    ASSERT_TRUE(status.ok()) << status.message();
    expect_same_virtual(sequences, paged());
    EXPECT_GT(cache.runner->graph_stats().replayed, 0);
  }
}

// Pages that are shown elsewhere, copied and swapped, by any order of the streams.
TEST_P(DeviceVirtualKv, PagesMoveAndKeepWhatTheyHold) {
  const std::uint64_t seeds = GetParam() == KvTensors::per_slot ? num_seeds() : 3;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    Virtual cache(GetParam(), seed);
    ScheduledBatch maps;
    maps.page_maps = {{BlockId{0}, BlockId{0}, 12}};
    ASSERT_TRUE(cache.runner->run(maps).status.ok());
    Driver driver(*cache.runner, cache.block_size);
    VirtualSequences sequences;
    ASSERT_TRUE(driver.generate(sequences.pointers, 2).ok());
    ScheduledBatch moves;
    std::int32_t number = 0;
    for (TestSequence& sequence : sequences.all)
      for (BlockId& block : sequence.blocks) {
        // Its page goes to the swap space and comes back as another, whose copy is shown in another slot.
        const BlockId page = block, back{12 + number}, copy{18 + number};
        const auto swap = static_cast<SwapBlockId>(number);
        moves.swap_out.push_back({page, swap});
        moves.swap_in.push_back({back, swap});
        moves.block_copies.push_back({back, copy});
        moves.page_maps.push_back({block, kNoPage, 1});
        block = BlockId{static_cast<std::int32_t>(kVirtualSlots * kBlocksPerVirtualSlot) - 1 - number};
        moves.page_maps.push_back({block, copy, 1});
        ++number;
      }
    ASSERT_LE(number, 6);
    const Status moved = cache.runner->run(moves).status;
    ASSERT_TRUE(moved.ok()) << moved.message();
    // The next tokens lie in blocks that nobody has used.
    maps.page_maps.clear();
    maps.page_maps.push_back({BlockId{0}, BlockId{0}, 12});
    ASSERT_TRUE(cache.runner->run(maps).status.ok());
    ASSERT_TRUE(driver.generate(sequences.pointers, 6).ok());
    expect_same_virtual(sequences, paged());
  }
}

// Mapped by another thread while a step runs, for the step after it.
TEST_P(DeviceVirtualKv, MapsAheadBesideAStep) {
  Virtual cache(GetParam(), 5);
  Driver driver(*cache.runner, cache.block_size);
  const TestSequence wanted = paged().all[2];
  TestSequence sequence = sequence_of(2);
  const auto per_block = static_cast<std::size_t>(cache.block_size);
  const std::vector<BlockId> table = {BlockId{6}, BlockId{7}, BlockId{8}};
  const std::vector<TokenId> prompt = sequence.tokens;
  const auto step = [&](std::size_t first, std::size_t end, std::vector<PageMapping> now,
                        std::vector<PageMapping> ahead) {
    ScheduledSequence scheduled;
    scheduled.num_computed_tokens = static_cast<std::int32_t>(first);
    scheduled.tokens = std::span(prompt).subspan(first, end - first);
    scheduled.all_tokens = prompt;
    scheduled.num_prompt_tokens = static_cast<std::int32_t>(prompt.size());
    scheduled.block_table = table;
    scheduled.sample = end == prompt.size();
    scheduled.spec.params = &sequence.params;
    scheduled.spec.seed = sequence.seed;
    ScheduledBatch batch;
    batch.page_maps = std::move(now);
    batch.page_maps_ahead = std::move(ahead);
    batch.sequences = {scheduled};
    return cache.runner->run(batch);
  };
  const std::size_t half = std::min(per_block, prompt.size() - 1);
  const StepResult first = step(0, half, {{BlockId{6}, BlockId{3}, 1}}, {{BlockId{7}, BlockId{9}, 2}});
  ASSERT_TRUE(first.status.ok()) << first.status.message();
  const StepResult second = step(half, prompt.size(), {}, {});
  ASSERT_TRUE(second.status.ok()) << second.status.message();
  // The thread counts when it is done, which may be before the first step's counts are taken.
  EXPECT_EQ(first.mapping.pages + second.mapping.pages, 3);
  EXPECT_EQ(first.mapping.pages_ahead + second.mapping.pages_ahead, 2);
  ASSERT_EQ(second.sequences[0].candidates.size(), 1u);
  EXPECT_EQ(second.sequences[0].candidates[0].token, wanted.sampled[0].token);
}

TEST_P(DeviceVirtualKv, WhatIsNotMappedIsAFaultAndWhatIsNotThereIsRefused) {
  {
    Virtual cache(GetParam(), 1);
    Driver driver(*cache.runner, cache.block_size);
    TestSequence sequence = sequence_of(0);
    const Status status = driver.step({&sequence}, 100);
    EXPECT_NE(status.message().find("where nothing is mapped"), std::string::npos) << status.message();
  }
  Virtual cache(GetParam(), 1);
  for (const PageMapping& wrong :
       {PageMapping{BlockId{0}, BlockId{24}, 1}, PageMapping{BlockId{23}, BlockId{0}, 2},
        PageMapping{BlockId{0}, BlockId{0}, 0}, PageMapping{BlockId{-2}, BlockId{0}, 1}}) {
    ScheduledBatch maps;
    maps.page_maps = {wrong};
    EXPECT_NE(cache.runner->run(maps).status.message().find("a page to map is out of range"),
              std::string::npos);
  }
}

TEST(DeviceVirtualKv, PagesAreCreatedOrRefusedTogether) {
  const auto runner = open_virtual(1);
  auto plan = plan_virtual_kv(runner->kv_page_layout(), kVirtualPage, KvTensors::per_layer);
  const std::int64_t free = runner->device_free_bytes();
  const VirtualKvShape shape = {.num_slots = 1,
                                .blocks_per_slot = 100'000,
                                .page_bytes = plan->page_bytes,
                                .num_tensors = plan->num_tensors,
                                .num_created = 3};
  ASSERT_TRUE(runner->allocate_virtual_kv(plan->layout, shape, 100'000, 0).ok());
  EXPECT_EQ(runner->device_free_bytes(), free - 3 * plan->block_bytes());
  const std::int64_t fit = runner->device_free_bytes() / plan->block_bytes();
  const Status refused = runner->create_kv_pages(3, fit + 1);
  EXPECT_EQ(refused.code(), StatusCode::resource_exhausted) << refused.message();
  EXPECT_EQ(runner->device_free_bytes(), free - 3 * plan->block_bytes());
  EXPECT_TRUE(runner->create_kv_pages(3, 2).ok());
  EXPECT_EQ(runner->memory_plan().kv_bytes, 5 * plan->block_bytes());
  // A page that is half a granule.
  const VirtualKvShape half = {.num_slots = 1, .blocks_per_slot = 4, .page_bytes = kVirtualPage / 2};
  const Status wrong = runner->allocate_virtual_kv(plan->layout, half, 4, 0);
  EXPECT_EQ(wrong.code(), StatusCode::invalid_argument);
  EXPECT_NE(wrong.message().find("maps multiples of 4096"), std::string::npos) << wrong.message();
}

}  // namespace
}  // namespace pagoda::device_runner
