// Goal: a step launches no more kernels than bench/gpu/estimate counts.
#include <gtest/gtest.h>

#include <map>

#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "model_runner/expect_golden.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

// The launches of a decode step of so many sequences, by kernel. Heads have 8 elements, which tiles take.
std::map<std::string, std::int64_t> launches_of(std::size_t count) {
  auto source = ModelSource::open(fixture("qwen3"));
  auto device = device::open_test_device();
  EXPECT_TRUE(source.has_value() && device.has_value());
  device::Device& profiled = **device;
  RunnerOptions options = {.dtype = "bfloat16"};
  options.num_blocks = static_cast<std::int64_t>(8 * count), options.max_context = 64;
  options.max_num_seqs = static_cast<std::int32_t>(count);
  auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          *std::move(device), {.graphs = GraphUse::off});
  EXPECT_TRUE(runner.has_value());
  Driver driver(**runner, 16);
  std::vector<TestSequence> sequences(count, greedy({3, 14, 15, 9, 2}));
  std::vector<TestSequence*> all;
  for (TestSequence& sequence : sequences) {
    sequence.params.logprobs.reset();
    all.push_back(&sequence);
  }
  EXPECT_TRUE(driver.generate(all, 1).ok());
  EXPECT_TRUE(profiled.start_profile().ok());
  EXPECT_TRUE(driver.generate(all, 2).ok());
  const auto times = profiled.end_profile();
  EXPECT_TRUE(times.has_value());
  std::map<std::string, std::int64_t> launches;
  for (const device::KernelTime& time : *times) {
    launches[time.kernel] = time.launches;
    launches["all"] += time.launches;
  }
  return launches;
}

std::int64_t attentions(const std::map<std::string, std::int64_t>& launches) {
  std::int64_t all = 0;
  for (const auto& [name, count] : launches)
    if (name.starts_with("attend_")) all += count;
  return all;
}

// A lone stream is bound by launches: norms, functions and neighbours are part of products (linear_few).
TEST(DeviceLaunches, AStepOfOneRowHasFiveALayer) {
  auto launches = launches_of(1);
  const std::int64_t layers = attentions(launches);
  ASSERT_GT(layers, 0);
  EXPECT_EQ(launches["rope_and_write_bf16"], 0);           // attention does it
  EXPECT_EQ(launches["linear_few_bf16"], 4 * layers + 1);  // and the head
  // The embedding, the last norm, the head and two of the sampler; rows that are drawn from may have to move.
  EXPECT_LE(launches["all"], 5 * layers + 6);
}

// Norms, functions and attention round what they make.
TEST(DeviceLaunches, AStepOfMoreRowsRoundsNothingByItself) {
  auto launches = launches_of(20);
  const std::int64_t layers = attentions(launches);
  ASSERT_GT(layers, 0);
  EXPECT_EQ(launches["rope_and_write_bf16"], 0);
  std::int64_t products = 0;
  for (const auto& [name, count] : launches)
    if (name.starts_with("linear_")) products += count;
  EXPECT_EQ(products, 4 * layers + 1);
  EXPECT_EQ(launches["rms_norm"], 2 * layers + 1);
  EXPECT_EQ(launches["activate"], layers);
  EXPECT_EQ(launches["round_rows"], 0);
}

// By the device's clock: of every step but the first, replayed or not.
TEST(DeviceLaunches, TheTimeBetweenStepsIsMeasured) {
  for (const GraphUse graphs : {GraphUse::off, GraphUse::automatic}) {
    auto source = ModelSource::open(fixture("llama"));
    auto device = device::open_test_device();
    ASSERT_TRUE(source.has_value() && device.has_value());
    RunnerOptions options = {.dtype = "bfloat16"};
    options.num_blocks = 8, options.max_context = 64;
    auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                            *std::move(device), {.graphs = graphs, .measure_idle = true});
    ASSERT_TRUE(runner.has_value());
    Driver driver(**runner, 16);
    TestSequence sequence = greedy({3, 14, 15, 9, 2});
    std::vector<std::optional<double>> idle;
    for (std::size_t i = 1; i <= 4; ++i) {
      ASSERT_TRUE(driver.generate({&sequence}, i).ok());
      idle.push_back(driver.idle_seconds());
    }
    EXPECT_FALSE(idle.front().has_value());
    for (std::size_t i = 1; i < idle.size(); ++i) {
      ASSERT_TRUE(idle[i].has_value());
      EXPECT_GE(*idle[i], 0);
      EXPECT_LT(*idle[i], 60);
    }
  }
}

}  // namespace
}  // namespace pagoda::device_runner
