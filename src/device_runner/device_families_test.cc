// Goal: every family gives on a device what transformers gives (the goldens of tests/fixtures/families), from
// a folder and from a GGUF file, by steps that write the same bytes eagerly and replayed. Where not all is
// tried (tries_all), one family of each kind is: its short line, or its long one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

// Whose layers do what shows in long prompts alone: windows, chunks, sinks, slopes, positions, many experts.
const std::set<std::string> kLong = {"bloom", "gemma2", "gpt_oss", "llama4_chunks", "mellum", "ministral3"};

Result<std::unique_ptr<DeviceModelRunner>> open_family(const std::string& path,
                                                       GraphUse graphs = GraphUse::check,
                                                       const std::string& dtype = "float32") {
  RunnerOptions options;
  options.dtype = dtype;
  options.num_blocks = 100;
  options.max_context = 128;
  options.max_num_seqs = 4;
  auto source = ModelSource::open(path);
  if (!source) return source.error();
  auto device = device::open_test_device({.seed = 5});
  if (!device) return device.error();
  return DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                   *std::move(device), {.graphs = graphs});
}

// Three sequences in graphs of four rows, with a row of padding and one that ends before the others, have the
// bits of eager steps. Always tried for some models, as GGUF files are: experts, states, latent rows,
// windows, attention of its own kind.
const std::set<std::string> kSample = {"deepseek_v3",    "falcon_h1", "gemma3n",   "gpt_oss",
                                       "granite_hybrid", "jamba",     "lfm2",      "llama_yarn",
                                       "mamba",          "phimoe",    "qwen3_next"};

void expect_same_replayed(const std::string& model, const std::string& name, DeviceModelRunner& replayed) {
  if (!device::tries_all() && !kSample.contains(name)) return;
  const auto eager = open_family(model, GraphUse::off);
  ASSERT_TRUE(eager) << eager.error().message();
  std::vector<TestSequence> made[2];
  for (const bool graphs : {false, true}) {
    DeviceModelRunner& runner = graphs ? replayed : **eager;
    Driver driver(runner, 16, runner.kv_plan().groups);
    std::vector<TestSequence>& sequences = made[graphs ? 1 : 0];
    for (const TokenId first : {5, 9, 12}) sequences.push_back(greedy({first, 7, 3, first}));
    ASSERT_TRUE(driver.generate({&sequences[0], &sequences[1], &sequences[2]}, 3).ok());
    ASSERT_TRUE(driver.generate({&sequences[0], &sequences[1]}, 4).ok());
  }
  for (std::size_t i = 0; i < 3; ++i) expect_same_draws(made[1][i], made[0][i]);
  const bool is_eager =
      replayed.config().layer_input.has_value() || replayed.rotation_rule().rotation_of(4) != 0;
  EXPECT_EQ((*eager)->graph_stats().captured, 0);
  EXPECT_EQ(replayed.graph_stats().captured, is_eager ? 0 : 2);
  EXPECT_EQ(replayed.graph_stats().replayed, is_eager ? 0 : 3);
}

// Norms, rotations, biases, parallel parts and mixtures of other kinds.
const std::set<std::string> kShort = {"cohere2",  "gemma4_moe", "glm4",       "gpt_bigcode", "gpt_neox",
                                      "gptj",     "mamba2",     "minimax_m2", "mixtral",     "mpt",
                                      "nemotron", "olmo3",      "phi",        "qwen2_moe"};

std::vector<std::string> tried_families() {
  const std::vector<std::string> all = all_families();
  if (device::tries_all()) return all;
  std::set<std::string> some = kSample;
  some.insert(kLong.begin(), kLong.end());
  some.insert(kShort.begin(), kShort.end());
  for (const std::string& name : some) CHECK(std::ranges::binary_search(all, name));
  return {some.begin(), some.end()};
}

class Family : public ::testing::TestWithParam<std::string> {};

TEST_P(Family, AgreesWithTransformers) {
  const std::string folder = write_family(
      GetParam(), ::testing::TempDir() + "device_" + GetParam() + "_" + std::to_string(::getpid()));
  const bool full = device::tries_all();
  std::string gguf;
  if (full || kSample.contains(GetParam())) {
    std::filesystem::create_directories(folder + "/gguf");
    gguf = write_family_gguf(GetParam(), folder + "/gguf");
  }
  const boost::json::object family = read_family(GetParam());
  const boost::json::array& goldens = family.at("goldens").as_array();
  for (const std::string& model : {folder, gguf}) {
    if (model.empty()) continue;
    SCOPED_TRACE(model);
    const auto runner = open_family(model);
    EXPECT_TRUE(runner) << runner.error().message();
    if (!runner) continue;
    EXPECT_TRUE((*runner)->ignored_tensors().empty());
    if (model == folder) expect_same_replayed(model, GetParam(), **runner);
    const std::size_t lines = model == folder && (full || kLong.contains(GetParam())) ? goldens.size() : 1;
    for (std::size_t i = 0; i < lines; ++i) {
      boost::json::object line = goldens[i].as_object();
      boost::json::array& ids = line.at("greedy_ids").as_array();
      ids.resize(std::min<std::size_t>(ids.size(), model == folder && full ? 6 : 2));
      expect_golden(Driver(**runner, 16, (*runner)->kv_plan().groups), line);
    }
  }
  std::filesystem::remove_all(folder);
}
// Quantised folders, whose weights are made while they are sent: as values, in 4 bits, and as 8-bit and 4-bit
// floats with scales of rows, blocks, and experts'.
TEST(QuantisedFolder, AgreesWithTheDequantisedModel) {
  for (const char* name : {"fp8_block", "fp8_tensor", "fp8_channel", "fp8_experts", "awq", "w8a8", "mxfp4",
                           "mxfp4_experts", "mxfp4_stacked", "nvfp4", "modelopt_nvfp4", "mlx_nvfp4"}) {
    SCOPED_TRACE(name);
    const std::string folder = std::string(PAGODA_SOURCE_DIR "/tests/fixtures/quantized/") + name;
    const auto runner = open_family(folder);
    ASSERT_TRUE(runner) << runner.error().message();
    EXPECT_TRUE((*runner)->ignored_tensors().empty());
    boost::json::object line = read_json_lines(folder + "/golden.jsonl").front();
    line.at("greedy_ids").as_array().resize(2);
    expect_golden(**runner, 16, line, 2e-4);
  }
}
// By tiles: codes are exact there, and inputs are rounded.
TEST(QuantisedFolder, AgreesByTiles) {
  for (const char* name : {"fp8_block", "fp8_tensor", "fp8_channel", "fp8_experts", "mxfp4_experts", "nvfp4",
                           "modelopt_nvfp4"}) {
    SCOPED_TRACE(name);
    const std::string folder = std::string(PAGODA_SOURCE_DIR "/tests/fixtures/quantized/") + name;
    const auto runner = open_family(folder, GraphUse::check, "bfloat16");
    ASSERT_TRUE(runner) << runner.error().message();
    boost::json::object line = read_json_lines(folder + "/golden.jsonl").front();
    line.at("greedy_ids").as_array().resize(2);
    expect_golden(**runner, 16, line, 0.1);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Family, ::testing::ValuesIn(tried_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pagoda::device_runner
