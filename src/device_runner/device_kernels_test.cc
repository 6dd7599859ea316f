// Goal: with --device-kernels fastest, matrices of many rows are multiplied by the device's library, and what
// has few rows keeps its bits and its graphs; steps that no grid of blocks has room for are refused. Method:
// the emulated device, and a profile of a step, which lists the program's own kernels alone.
#include <gtest/gtest.h>

#include <cmath>

#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "model_runner/test_sequences.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

Result<std::unique_ptr<DeviceModelRunner>> create_with_flags(const std::string& model, RunnerOptions options,
                                                             const DeviceKernels& kernels = {},
                                                             bool clusters = true) {
  if (options.dtype == "auto") options.dtype = "float32";
  options.num_blocks = 60;
  options.max_num_seqs = 8;
  auto source = ModelSource::open(fixture(model));
  if (!source) return source.error();
  auto device = device::open_test_device({.clusters = clusters});
  if (!device) return device.error();
  return DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                   *std::move(device), kernels);
}

// Only steps with many rows go to the library: those of few have the bits of the program's own kernels, and
// are replayed.
TEST(DeviceKernelsFlag, TheFastestKernelsAreTheLibrarysForManyRows) {
  RunnerOptions options;
  options.dtype = "bfloat16";
  options.max_num_batched_tokens = 512;
  std::vector<std::vector<Candidate>> got;
  std::vector<std::int64_t> replayed, own_products;
  constexpr std::int32_t kPrompt = 40;
  std::vector<TokenId> prompt;
  for (std::int32_t i = 0; i < kPrompt; ++i) prompt.push_back((7 + 31 * i) % 60);
  for (const std::int32_t count : {1, kLibraryRows / kPrompt + 1})
    for (const MatrixProducts products : {MatrixProducts::automatic, MatrixProducts::fastest}) {
      const auto runner = create_with_flags("qwen2", options, {.products = products});
      if (!runner && runner.error().code() == StatusCode::unavailable)
        GTEST_SKIP() << runner.error().message();
      ASSERT_TRUE(runner) << runner.error().message();
      EXPECT_EQ((*runner)->bits_depend_on_batch(), products == MatrixProducts::fastest);
      Driver driver(**runner, 16);
      std::vector<TestSequence> sequences(static_cast<std::size_t>(count), greedy(prompt));
      std::vector<TestSequence*> all;
      for (TestSequence& sequence : sequences) all.push_back(&sequence);
      auto& device = const_cast<device::Device&>((*runner)->device());
      ASSERT_TRUE(device.start_profile().ok());
      Status status = driver.generate(all, 1, kPrompt);
      ASSERT_TRUE(status.ok()) << status.message();
      const auto profile = device.end_profile();
      ASSERT_TRUE(profile);
      own_products.push_back(0);
      for (const device::KernelTime& line : *profile)
        if (std::string_view(line.kernel).starts_with("linear_")) own_products.back() += line.launches;
      status = driver.generate(all, 4, kPrompt);
      ASSERT_TRUE(status.ok()) << status.message();
      got.push_back(sequences[0].sampled);
      replayed.push_back((*runner)->graph_stats().replayed);
    }
  EXPECT_EQ(largest_difference(got[0], got[1]), 0);
  EXPECT_LT(largest_difference(got[2], got[3]), 0.05);
  EXPECT_GT(own_products[0], 1);
  EXPECT_EQ(own_products[1], own_products[0]);
  // Those of the last layer behind its attention, and the head, have a row a sequence.
  EXPECT_EQ(own_products[3], 3 + 1);
  EXPECT_GT(own_products[2], own_products[3]);
  EXPECT_EQ(replayed, std::vector<std::int64_t>(4, replayed[0]));
  EXPECT_GT(replayed[0], 0);
  const auto f32 = create_with_flags("qwen2", {}, {.products = MatrixProducts::fastest});
  ASSERT_FALSE(f32);
  EXPECT_EQ(f32.error().message(), "--device-kernels fastest needs --dtype bfloat16");
}

TEST(DeviceKernelsFlag, StepsOfMoreRowsThanAGridHasBlocksForAreRefused) {
  struct Refused {
    const char* model;
    std::int32_t tokens;
    bool clusters;
  };
  for (const auto& [model, tokens, clusters] :
       {Refused{"llama", 16 * 65536, false}, Refused{"mixtral", 8 * 65536, false},
        Refused{"llama", 9 * 65536 / 2, true}}) {
    const auto runner = create_with_flags(model, {.max_num_batched_tokens = tokens}, {}, clusters);
    ASSERT_FALSE(runner) << model;
    EXPECT_NE(runner.error().message().find("would have more blocks than a device takes"), std::string::npos)
        << runner.error().message();
  }
}

}  // namespace
}  // namespace pagoda::device_runner
