// Costs of page mappings in simulated time: against sums by hand, and paged beside virtual in whole runs.
#include "sim/simulated_page_mapper.h"

#include "cli/simulate/simulation_setup.h"
#include "load/workload_spec.h"
#include "sim/test_support.h"

namespace pagoda {
namespace {

using sim_test::plain_cost_model;

constexpr TimeNs kMs = 1'000'000;

// A block of 16 tokens of 1 KiB is four of the driver's pages.
CostModel mapping_cost_model() {
  CostModel out = plain_cost_model();
  out.map_page_bytes = 4096;
  out.map_call_s = 1e-3;
  out.map_page_s = 2e-3;
  out.unmap_page_s = 0.5e-3;
  return out;
}

const PageMapping kMaps{.block = BlockId{3}, .page = BlockId{5}, .count = 2};
const PageMapping kUnmaps{.block = BlockId{3}, .page = kNoPage, .count = 1};

TEST(SimulatedPageMapper, CallsAndTheDriversPagesCost) {
  const CostModel model = mapping_cost_model();
  const std::vector<KvGroup> groups = one_full_group(16);
  SimulatedPageMapper mapper(model, groups, 1);
  const std::array both{kMaps, kUnmaps};
  EXPECT_NEAR(mapper.map(both, kMs), (1 + 2 * 4 * 2 + 1 + 4 * 0.5) * 1e-3, 1e-12);
  const MapStats stats = mapper.take_stats();
  EXPECT_EQ(stats.calls, 2);
  EXPECT_EQ(stats.pages, 2);
  EXPECT_EQ(stats.steps_delayed, 1);
  EXPECT_EQ(mapper.map({}, kMs), 0);
  EXPECT_EQ(mapper.take_stats().steps_delayed, 0);
}

TEST(SimulatedPageMapper, EveryTensorHasItsCallsAndWholePages) {
  const CostModel model = mapping_cost_model();
  const std::vector<KvGroup> groups = one_full_group(16);
  // 16 KiB in 8 tensors: half a page each, which takes a whole one.
  SimulatedPageMapper mapper(model, groups, 8);
  EXPECT_NEAR(mapper.map(std::span(&kMaps, 1), kMs), 8 * (1 + 2 * 2) * 1e-3, 1e-12);
  EXPECT_EQ(mapped_block_bytes(model, 16, 1, 8), 4096);
  EXPECT_EQ(mapped_block_bytes(model, 16, 1, 1), 4 * 4096);
}

TEST(SimulatedPageMapper, WhatIsMappedBesideAStepDelaysTheNextByTheRestOnly) {
  const CostModel model = mapping_cost_model();
  const std::vector<KvGroup> groups = one_full_group(16);
  SimulatedPageMapper mapper(model, groups, 1);
  mapper.map_ahead(std::span(&kMaps, 1), 100 * kMs);   // 17 ms
  EXPECT_NEAR(mapper.map({}, 110 * kMs), 7e-3, 1e-9);  // the next step comes early
  mapper.map_ahead(std::span(&kMaps, 1), 200 * kMs);
  EXPECT_EQ(mapper.map({}, 217 * kMs), 0);  // and in time
  const MapStats stats = mapper.take_stats();
  EXPECT_EQ(stats.calls_ahead, 2);
  EXPECT_EQ(stats.steps_delayed, 1);
  EXPECT_NEAR(stats.seconds_ahead, 34e-3, 1e-9);
}

TEST(SimulatedPageMapper, WithoutThePagesOfADriverMappingIsFree) {
  const CostModel model = plain_cost_model();
  const std::vector<KvGroup> groups = one_full_group(16);
  SimulatedPageMapper mapper(model, groups, 1);
  EXPECT_EQ(mapper.map(std::span(&kMaps, 1), kMs), 0);
  EXPECT_EQ(mapped_block_bytes(model, 16, 1, 1), 0);
}

SimulationSummary run_pages(const CostModel& cost, const char* manager, bool ahead) {
  EngineFlags flags;
  flags.kv_manager = manager;
  flags.kv_cache_memory_bytes = 64 << 20;  // memory never binds: the same steps
  flags.kv_map_ahead = flags.kv_eager = flags.kv_deferred_reclaim = ahead;
  const SimulationOptions options = sim_test::checked(simulation_options(flags, cost));
  auto workload = open_workload("uniform:input=20-200,output=20-100,requests=100,rate=20,seed=3");
  EXPECT_TRUE(workload);
  auto summary = simulate(options, **workload);
  EXPECT_TRUE(summary) << (summary ? "" : summary.error().message());
  EXPECT_EQ(summary->completed, 100);
  return *std::move(summary);
}

TEST(SimulatedPageMapper, VirtualIsPagedPlusItsMappings) {
  CostModel cost = plain_cost_model();
  const SimulationSummary paged = run_pages(cost, "paged", true), free = run_pages(cost, "virtual", true);
  EXPECT_EQ(paged.busy_s, free.busy_s);
  EXPECT_EQ(paged.mapping.calls, 0);
  EXPECT_GT(free.mapping.pages, 0);
  cost = mapping_cost_model();
  cost.map_page_s = 0.1e-3;  // a block in 1.4 ms, less than a step
  const SimulationSummary in_step = run_pages(cost, "virtual", false),
                          ahead = run_pages(cost, "virtual", true);
  EXPECT_EQ(run_pages(cost, "paged", true).busy_s, paged.busy_s);
  EXPECT_EQ(in_step.mapping.calls_ahead, 0);
  EXPECT_GT(ahead.mapping.calls_ahead, 0);
  EXPECT_GT(in_step.mapping.seconds, 2 * ahead.mapping.seconds) << "most of it is hidden beside the steps";
  EXPECT_GT(in_step.mapping.steps_delayed, 2 * ahead.mapping.steps_delayed);
  // A run's time beyond its computing is the time of its mappings within steps.
  EXPECT_GT(in_step.busy_s, paged.busy_s + 0.5 * in_step.mapping.seconds);
  EXPECT_GT(in_step.inter_token.statistics().mean, ahead.inter_token.statistics().mean);
}

TEST(SimulatedPageMapper, PagesThatABlockDoesNotFillTakeTheirMemory) {
  EngineFlags flags;
  flags.kv_manager = "virtual";
  CostModel cost = mapping_cost_model();
  cost.map_page_bytes = 3 * 4096;  // a block of 16 KiB takes two
  const auto padded = simulation_options(flags, cost);
  ASSERT_TRUE(padded);
  EXPECT_EQ(padded->num_blocks, 256 * 4 / 6);
  flags.kv_manager = "paged";
  EXPECT_EQ(simulation_options(flags, cost)->num_blocks, 256);
}

TEST(SimulatedPageMapper, TheNamedModelsHaveACardsCosts) {
  for (const char* name : {"paper/opt-13b", "a100-40gb/opt-13b/tp1", "h100/llama-3-8b/tp1"}) {
    const auto model = named_cost_model(name);
    ASSERT_TRUE(model);
    EXPECT_EQ(model->map_page_bytes, 2 << 20);
    EXPECT_EQ(model->map_page_s, 40e-6);
    const auto again = parse_cost_model(cost_model_json(*model));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->unmap_page_s, model->unmap_page_s);
  }
  CostModel bad = plain_cost_model();
  bad.map_page_s = 1;
  EXPECT_EQ(validate(bad).param(), "map_page_bytes");
}

}  // namespace
}  // namespace pagoda
