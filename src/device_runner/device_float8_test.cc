// Goal: with --device-products w8a8 a folder whose scheme quantises activations to 8-bit floats is computed
// as the scheme says, nearer to it than without; a token has the same bits alone, in a batch, in chunks and
// in graphs; all such matrices take these products, whatever the rows; and what cannot be is refused. Experts
// in 4-bit floats are multiplied as such.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "model_runner/expect_golden.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

std::string folder_of(const std::string& name) {
  return std::string(PAGODA_SOURCE_DIR "/tests/fixtures/quantized/") + name;
}

struct Opened {
  MatrixProducts products = MatrixProducts::w8a8;
  GraphUse graphs = GraphUse::check;
  std::string dtype = "bfloat16";
  bool clusters = true;
  std::string backward = {};
};
Result<std::unique_ptr<DeviceModelRunner>> open_float8(const std::string& name, const Opened& how = {},
                                                       device::Device** device = nullptr) {
  RunnerOptions options;
  options.dtype = how.dtype;
  options.num_blocks = 100;
  options.max_context = 128;
  options.max_num_seqs = 4;
  auto source = ModelSource::open(folder_of(name));
  if (!source) return source.error();
  auto made =
      device::open_test_device({.seed = 5, .clusters = how.clusters, .backward_kernels = how.backward});
  if (!made) return made.error();
  if (device != nullptr) *device = made->get();
  return DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                   *std::move(made), {.products = how.products, .graphs = how.graphs});
}

double lost(DeviceModelRunner& runner, const std::string& name) {
  double sum = 0;
  for (const boost::json::object& line : read_json_lines(folder_of(name) + "/scheme.jsonl")) {
    const std::vector<double> expected = numbers_of(line.at("prompt_logprobs"));
    Driver driver(runner, 16);
    TestSequence sequence = greedy(ids_of(line.at("prompt_ids")));
    sequence.prompt_logprobs = 0;
    EXPECT_TRUE(driver.step({&sequence}, 1 << 20).ok());
    for (std::size_t i = 0; i < expected.size(); ++i)
      sum += std::abs(sequence.prompt_scores[i].chosen.logprob - expected[i]);
    if (!device::tries_all()) break;
  }
  return sum;
}

TEST(DeviceFloat8, ComputesTheScheme) {
  double without = 0, with = 0;
  for (const std::string name : {"fp8_block", "fp8_token", "fp8_fused", "fp8_tensor"}) {
    const auto kept = open_float8(name, {.products = MatrixProducts::automatic}), made = open_float8(name);
    ASSERT_TRUE(kept && made) << name;
    without += lost(**kept, name);
    with += lost(**made, name);
  }
  EXPECT_LT(with, without);
}

TEST(DeviceFloat8, BitsDependOnTheSequenceAlone) {
  for (const std::string name : {"fp8_block", "fp8_token"}) {
    device::Device* device = nullptr;
    const auto one = open_float8(name, {.graphs = GraphUse::off}, &device), all = open_float8(name);
    ASSERT_TRUE(one && all) << name;
    ASSERT_TRUE(device->start_profile().ok());
    std::vector<TestSequence> alone, together;
    for (const TokenId first : {5, 9, 12, 7}) alone.push_back(greedy({first, 7, 3, first, 8, 8, 4}));
    together = alone;
    for (TestSequence& sequence : alone) {
      Driver driver(**one, 16);
      ASSERT_TRUE(driver.generate({&sequence}, 4).ok());
    }
    std::vector<TestSequence*> pointers;
    for (TestSequence& sequence : together) pointers.push_back(&sequence);
    Driver driver(**all, 16);
    const Status ran = driver.generate(pointers, 4, 5);
    ASSERT_TRUE(ran.ok()) << ran.message();
    for (std::size_t i = 0; i < alone.size(); ++i) expect_same_draws(together[i], alone[i]);
    const auto times = device->end_profile();
    ASSERT_TRUE(times.has_value());
    std::int64_t float8 = 0;
    for (const device::KernelTime& time : *times) {
      const std::string_view kernel = time.kernel;
      if (kernel.starts_with("linear_float8_")) float8 += time.launches;
      EXPECT_FALSE(kernel.starts_with("linear_") && kernel.find("_fp8") != kernel.npos) << kernel;
    }
    EXPECT_GT(float8, 0);
  }
}

// Experts in 4-bit floats, one tensor each or stacked, stay as they are: in prompts and in decode.
TEST(DeviceFloat4, ExpertsAreNotWidened) {
  for (const std::string name : {"mxfp4_experts", "mxfp4_stacked"}) {
    SCOPED_TRACE(name);
    device::Device* device = nullptr;
    const auto runner =
        open_float8(name, {.products = MatrixProducts::automatic, .graphs = GraphUse::off}, &device);
    ASSERT_TRUE(runner) << runner.error().message();
    ASSERT_TRUE(device->start_profile().ok());
    TestSequence sequence = greedy({5, 7, 3, 5, 8, 8, 4});
    Driver driver(**runner, 16);
    ASSERT_TRUE(driver.generate({&sequence}, 3).ok());
    const auto times = device->end_profile();
    ASSERT_TRUE(times.has_value());
    std::int64_t kept = 0;
    for (const device::KernelTime& time : *times) {
      const std::string_view kernel = time.kernel;
      if (!kernel.starts_with("grouped_")) continue;
      EXPECT_EQ(kernel, "grouped_tiles_mxfp4");
      kept += time.launches;
    }
    EXPECT_GT(kept, 0);
  }
}

TEST(DeviceFloat8, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& name, const Opened& how, std::string_view why) {
    const auto runner = open_float8(name, how);
    ASSERT_FALSE(runner.has_value()) << why;
    EXPECT_NE(runner.error().message().find(why), std::string::npos) << runner.error().message();
  };
  refused("fp8_token", {.dtype = "float32"}, "needs --dtype bfloat16");
  refused("awq", {}, "whose scheme quantises activations");
  if (std::getenv("PAGODA_TEST_DEVICE") != nullptr) return;
  refused("fp8_token", {.clusters = false}, "needs compute capability 9.0");
  refused("fp8_token", {.backward = "linear_float8_48_64"}, "leave out --device-products w8a8");
}

}  // namespace
}  // namespace pagoda::device_runner
