// Engines planned for machines that do not exist: plan_engine() takes numbers and gives numbers.
#include "cli/assembly/engine_plan.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20, kGiB = std::int64_t{1} << 30;

ModelNumbers small_model() {
  ModelNumbers model;
  model.max_positions = 8192;
  model.vocab_size = 1000;
  model.max_num_batched_tokens = 2048;
  model.kv_plan.groups = one_full_group(16);
  model.page_layout = {.num_layers = 4, .num_kv_heads = 2, .head_size = 64, .block_size = 16};
  model.page_granule = 4096;
  model.kv_block_bytes = kMiB;
  model.kv_heads = {2};
  model.kv_room = {.available = 8 * kGiB, .taken = kGiB};
  return model;
}

HostMemory small_host() { return {.available_bytes = 8 * kGiB, .private_bytes = kGiB, .mappings = 60'000}; }

TEST(EnginePlan, TheCacheIsAsLargeAsTheFlagSays) {
  EngineFlags flags;
  flags.kv_cache_memory_bytes = 64 * kMiB;
  const auto plan = plan_engine(flags, small_model(), small_host());
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->kv.num_blocks, 64);
  EXPECT_EQ(plan->engine.max_model_len, 64 * 16) << "no longer than the cache";
  EXPECT_EQ(plan->engine.max_num_batched_tokens, 2048);
  EXPECT_FALSE(plan->engine.kv_groups.has_value()) << "one group that sees everything";
  EXPECT_FALSE(plan->virtual_memory.has_value());
  EXPECT_EQ(plan->num_swap_blocks, 0);
  flags.swap_space_bytes = 8 * kMiB;
  EXPECT_EQ(plan_engine(flags, small_model(), small_host())->num_swap_blocks, 8);
}

TEST(EnginePlan, EnginesDivideTheMemory) {
  EngineFlags flags;
  flags.kv_cache_memory_bytes = 64 * kMiB;
  flags.swap_space_bytes = 8 * kMiB;
  flags.kv_offloading_bytes = 12 * kMiB;
  flags.data_parallel_size = 4;
  const auto plan = plan_engine(flags, small_model(), small_host());
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->kv.num_blocks, 16);
  EXPECT_EQ(plan->num_swap_blocks, 2);
  EXPECT_EQ(plan->num_offload_blocks, 3);
  EXPECT_EQ(plan->engine.max_model_len, 16 * 16) << "no longer than one engine's cache";
  flags.data_parallel_size = 40;
  const auto refused = plan_engine(flags, small_model(), small_host());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("in each of 40 engines"), std::string::npos);
}

TEST(EnginePlan, TheCacheTakesAShareOfWhatTheModelLeaves) {
  const EngineFlags flags;
  const auto small = plan_engine(flags, small_model(), small_host());
  ASSERT_TRUE(small);
  EXPECT_GT(small->kv.num_blocks, 1024);
  EXPECT_LT(small->kv.num_blocks, 7 * 1024);
  EXPECT_EQ(small->engine.max_model_len, 8192);
  ModelNumbers model = small_model();
  model.kv_room.available *= 2;
  EXPECT_GT(plan_engine(flags, model, small_host())->kv.num_blocks, small->kv.num_blocks);
}

// vLLM's flags for it, which mean a GPU's memory.
TEST(EnginePlan, ADevicesCacheIsAsLargeAsVllmsFlagsSay) {
  const auto blocks = [](const EngineFlags& flags) {
    const auto plan = plan_engine(flags, small_model(), small_host());
    return plan ? plan->kv.num_blocks : -1;
  };
  EngineFlags flags;
  const std::int64_t on_cpu = blocks(flags);
  flags.gpu_memory_utilization = 0.9;
  flags.num_gpu_blocks_override = 100;
  EXPECT_EQ(blocks(flags), on_cpu);
  flags.device = "emulated";
  EXPECT_EQ(blocks(flags), 100);
  flags.num_gpu_blocks_override.reset();
  EXPECT_EQ(blocks(flags), static_cast<std::int64_t>(0.9 * 7 * 1024));
  flags.gpu_memory_utilization.reset();
  EXPECT_EQ(blocks(flags), 7 * 1024 / 2);
  flags.num_gpu_blocks_override = 8 * 1024;
  const auto refused = plan_engine(flags, small_model(), small_host());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("--num-gpu-blocks-override needs"), std::string::npos);
}

TEST(EnginePlan, WhatCannotWorkIsRefusedNamingTheFlag) {
  const auto refusal = [](auto change, ModelNumbers model, HostMemory host) {
    EngineFlags flags;
    change(flags, model, host);
    const auto plan = plan_engine(flags, model, host);
    return plan ? std::string() : std::string(plan.error().message());
  };
  const auto names = [&](const char* what, auto change) {
    const std::string message = refusal(change, small_model(), small_host());
    EXPECT_NE(message.find(what), std::string::npos) << "\"" << message << "\" does not name " << what;
  };
  names("--kv-cache-memory-bytes", [](auto& flags, auto&, auto&) { flags.kv_cache_memory_bytes = 9 * kGiB; });
  names("--kv-cache-memory-bytes", [](auto& flags, auto&, auto&) { flags.kv_cache_memory_bytes = kMiB; });
  names("--max-model-len", [](auto& flags, auto&, auto&) { flags.max_model_len = 9000; });
  names("--max-num-batched-tokens", [](auto& flags, auto&, auto&) { flags.enable_chunked_prefill = false; });
  names("vm.max_map_count", [](auto& flags, auto&, auto& host) {
    flags.kv_manager = "virtual";
    host.mappings = 4100;
  });
  names("--kv-manager paged", [](auto& flags, auto& model, auto&) {
    flags.scheduler = "orca";
    flags.kv_manager = "reserved";
    model.kv_plan.pieces.resize(1);
    model.kv_plan.groups.push_back({.kind = KvKind::state, .tokens_per_row = 16, .pages_per_row = 1});
  });
}

TEST(EnginePlan, AVirtualCacheHasBlocksOfItsPageSize) {
  EngineFlags flags;
  flags.kv_manager = "virtual";
  flags.kv_cache_memory_bytes = kGiB;
  const auto plan = plan_engine(flags, small_model(), small_host());
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE(plan->virtual_memory.has_value());
  EXPECT_EQ(plan->engine.block_size, plan->virtual_memory->layout.block_size);
  EXPECT_EQ(plan->groups.groups.front().tokens_per_row, plan->engine.block_size);
}

TEST(EnginePlan, AnEncoderKeepsNothing) {
  ModelNumbers model = small_model();
  model.kv_plan.groups.clear();
  const auto plan = plan_engine({}, model, small_host());
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->kv.num_blocks, 1);
  EXPECT_FALSE(plan->engine.enable_prefix_caching);
}

}  // namespace
}  // namespace pagoda
