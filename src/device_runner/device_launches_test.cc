// Goal: a step launches no more kernels than bench/gpu/estimate counts.
#include <gtest/gtest.h>

#include <map>

#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "model_runner/expect_golden.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

// A lone stream is bound by launches: norms, functions and neighbours are part of products (linear_few).
TEST(DeviceLaunches, AStepOfOneRowHasSevenALayer) {
  auto source = ModelSource::open(fixture("llama"));
  auto device = device::open_test_device();
  ASSERT_TRUE(source.has_value() && device.has_value());
  device::Device& profiled = **device;
  RunnerOptions options = {.dtype = "bfloat16"};
  options.num_blocks = 8, options.max_context = 64;
  auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          *std::move(device), {.graphs = GraphUse::off});
  ASSERT_TRUE(runner.has_value());
  Driver driver(**runner, 16);
  TestSequence sequence = greedy({3, 14, 15, 9, 2});
  sequence.params.logprobs.reset();
  ASSERT_TRUE(driver.generate({&sequence}, 1).ok());
  ASSERT_TRUE(profiled.start_profile().ok());
  ASSERT_TRUE(driver.generate({&sequence}, 2).ok());
  const auto times = profiled.end_profile();
  ASSERT_TRUE(times.has_value());
  std::map<std::string, std::int64_t> launches;
  std::int64_t all = 0;
  for (const device::KernelTime& time : *times) {
    launches[time.kernel] = time.launches;
    all += time.launches;
  }
  const std::int64_t layers = launches["rope_and_write_bf16"];
  ASSERT_GT(layers, 0);
  EXPECT_EQ(launches["linear_few_bf16"], 4 * layers + 1);  // and the head
  EXPECT_EQ(launches["merge_splits"], layers);
  // The embedding, the last norm, the head and two of the sampler; rows that are drawn from may have to move.
  EXPECT_LE(all, 7 * layers + 6);
}

}  // namespace
}  // namespace pagoda::device_runner
