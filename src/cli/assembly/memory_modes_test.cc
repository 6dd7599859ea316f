#include "cli/assembly/memory_modes.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

std::string refusal(void (*change)(EngineFlags&)) {
  EngineFlags flags;
  change(flags);
  return std::string(check_memory_modes(flags).message());
}

TEST(MemoryModes, CombinationsThatCannotWorkAreRefusedNamingTheFlag) {
  const auto names = [](const std::string& message, const char* flag) {
    EXPECT_NE(message.find(flag), std::string::npos) << message;
  };
  names(refusal([](EngineFlags& f) { f.preemption_mode = "swap"; }), "--swap-space");
  names(refusal([](EngineFlags& f) { f.scheduler = "orca", f.kv_manager = "paged"; }), "--kv-manager");
  names(refusal([](EngineFlags& f) { f.kv_manager = "reserved"; }), "--kv-manager");
  names(refusal([](EngineFlags& f) { f.reserve = "max"; }), "--reserve");
  names(refusal([](EngineFlags& f) { f.scheduler = "orca", f.scheduling_policy = "priority"; }),
        "--scheduling-policy");
  names(refusal([](EngineFlags& f) { f.scheduler = "orca", f.scheduling_policy = "fair"; }),
        "--scheduling-policy");
  EXPECT_EQ(refusal([](EngineFlags& f) { f.scheduler = "orca", f.server.api_keys = {"a", "b"}; }), "");
  names(refusal([](EngineFlags& f) { f.scheduler = "orca", f.eviction_policy = "lfu"; }),
        "--eviction-policy");
  names(refusal([](EngineFlags& f) { f.scheduler = "fastertransformer", f.preemption_mode = "recompute"; }),
        "--preemption-mode");
  names(refusal([](EngineFlags& f) { f.scheduler = "orca", f.swap_space_bytes = 1; }), "--swap-space");
  names(refusal([](EngineFlags& f) { f.scheduler = "orca", f.prefix_file = "p.json"; }), "--prefix-file");
  EXPECT_EQ(refusal([](EngineFlags&) {}), "");
  EXPECT_EQ(refusal([](EngineFlags& f) { f.scheduler = "orca", f.reserve = "pow2"; }), "");
  EXPECT_EQ(refusal([](EngineFlags& f) { f.preemption_mode = "swap", f.swap_space_bytes = 1 << 20; }), "");
}

TEST(MemoryModes, SeveralKeysShareFairlyUnlessTheFlagSaysOtherwise) {
  EngineFlags flags;
  EXPECT_EQ(scheduling_policy(flags), SchedulingPolicy::fcfs);
  flags.server.api_keys = {"a"};
  EXPECT_EQ(scheduling_policy(flags), SchedulingPolicy::fcfs);
  flags.server.api_keys = {"a", "b"};
  EXPECT_EQ(scheduling_policy(flags), SchedulingPolicy::fair);
  flags.server.api_keys.clear();
  flags.server.api_key_file = "keys.yaml";
  EXPECT_EQ(scheduling_policy(flags), SchedulingPolicy::fair);
  flags.scheduling_policy = "fcfs";
  EXPECT_EQ(scheduling_policy(flags), SchedulingPolicy::fcfs);
  flags.scheduling_policy = "auto";
  flags.scheduler = "orca";
  EXPECT_EQ(scheduling_policy(flags), SchedulingPolicy::fcfs);
}

TEST(MemoryModes, SwapNeverExceedsTheKvCache) {
  EngineFlags flags;
  EXPECT_EQ(num_swap_blocks(flags, 100, 1024), 0);
  flags.swap_space_bytes = 10 * 1024 + 5;
  EXPECT_EQ(num_swap_blocks(flags, 100, 1024), 10);
  flags.swap_space_bytes = std::int64_t{1} << 40;
  EXPECT_EQ(num_swap_blocks(flags, 100, 1024), 100);
}

TEST(MemoryModes, AMaximumThatNoRegionHoldsIsRefused) {
  EngineFlags flags;
  flags.scheduler = "orca";
  EngineConfig config;
  config.max_model_len = 64;
  EXPECT_TRUE(make_memory_parts(flags, config, 4, 0).has_value());
  EXPECT_FALSE(make_memory_parts(flags, config, 3, 0).has_value()) << "regions of 2 and of 1 blocks";
  flags.reserve = "oracle";
  EXPECT_TRUE(make_memory_parts(flags, config, 3, 0).has_value());
}

}  // namespace
}  // namespace pagoda
