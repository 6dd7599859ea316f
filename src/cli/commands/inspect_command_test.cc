#include "cli/commands/inspect_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "cli/assembly/hub_paths.h"
#include "cli/commands/model_facts.h"
#include "loader/test_files.h"
#include "model_runner/family_model.h"
#include "model_runner/fused_gguf.h"

namespace pagoda {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome inspect(const std::string& path, bool json) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = run_inspect({.path = path, .json = json});
  return {code, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
}

TEST(Inspect, OneJsonObjectOnStdout) {
  const Outcome outcome = inspect(PAGODA_SOURCE_DIR "/tests/fixtures/models/all_types.gguf", true);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with("{\"path\":")) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("}\n"));
  EXPECT_EQ(outcome.err, "");
  const boost::json::value out = boost::json::parse(outcome.out);
  EXPECT_EQ(out.at("kv_bytes_per_token").at("float32"), 2 * 1 * 2 * 32 * 4);
  EXPECT_EQ(out.at("kv_bytes_per_token").at("int8"), 2 * 1 * 2 * (32 + 4));
  EXPECT_EQ(out.at("kv_bytes_per_token").at("fp8"), 2 * 1 * 2 * 32);
  EXPECT_EQ(out.at("serving").at("fp8_kv_scales_of_layers"), 0);
}

boost::json::value inspect_config(const std::string& config) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("pagoda_inspect_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "config.json") << config;
  const Outcome outcome = inspect((folder / "config.json").string(), true);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return boost::json::parse(outcome.out);
}

// Gemma 3 270M: 3 layers that see everything, 15 with a window, heads of 256, one for keys and values.
TEST(Inspect, FamilyAndMemoryByGroup) {
  const boost::json::value out = inspect_config(
      R"({"model_type":"gemma3_text","num_hidden_layers":18,"hidden_size":640,"num_attention_heads":4,
          "num_key_value_heads":1,"sliding_window":512,"max_position_embeddings":32768})");
  const boost::json::value& serving = out.at("serving");
  EXPECT_NE(std::string(serving.at("family").as_string()).find("Gemma 3"), std::string::npos);
  ASSERT_EQ(serving.at("kv_groups").as_array().size(), 2u);
  const boost::json::value& full = serving.at("kv_groups").at(0);
  const boost::json::value& windows = serving.at("kv_groups").at(1);
  EXPECT_EQ(full.at("layers"), 3);
  EXPECT_EQ(full.at("window"), nullptr);
  EXPECT_EQ(full.at("bytes_per_1024_tokens").at("bfloat16"), 1024 * 3 * 2 * 256 * 2);
  EXPECT_EQ(full.at("bytes_full_context").at("bfloat16"), 32768 * 3 * 2 * 256 * 2);
  EXPECT_EQ(windows.at("layers"), 15);
  EXPECT_EQ(windows.at("window"), 512);
  EXPECT_EQ(windows.at("bytes_full_context").at("float32"), (512 + 32) * 15 * 2 * 256 * 4);
  EXPECT_FALSE(serving.as_object().contains("speed_estimate")) << "there are no weights to read";
}

// DeepSeek-V2-Lite: one row a token and layer for all heads, no value beside it, and none in 8 bits.
TEST(Inspect, LatentRows) {
  const boost::json::value out = inspect_config(
      R"({"model_type":"deepseek_v2","hidden_size":2048,"num_hidden_layers":27,"num_attention_heads":16,
          "q_lora_rank":null})");
  EXPECT_EQ(out.at("serving").at("kv_groups").as_array().size(), 1u);
  EXPECT_EQ(out.at("kv_bytes_per_token").at("bfloat16"), 27 * 576 * 2);
  EXPECT_TRUE(out.at("kv_bytes_per_token").at("int8").is_null());
}

// LFM2 1.2B: 6 layers of attention, and 10 with a state of the last two inputs of 2048 channels, in float32.
TEST(Inspect, StatesAreNotPerToken) {
  const boost::json::value out = inspect_config(
      R"({"model_type":"lfm2","hidden_size":2048,"num_hidden_layers":16,"full_attn_idxs":[2,5,8,10,12,14]})");
  const boost::json::value& groups = out.at("serving").at("kv_groups");
  ASSERT_EQ(groups.as_array().size(), 2u);
  EXPECT_EQ(groups.at(0).at("layers"), 6);
  EXPECT_EQ(groups.at(0).at("bytes_per_1024_tokens").at("bfloat16"), 1024 * 6 * 2 * 512 * 2);
  EXPECT_EQ(groups.at(1).at("layers"), 10);
  EXPECT_EQ(groups.at(1).at("state"), true);
  EXPECT_EQ(groups.at(1).at("bytes_per_1024_tokens").at("float32"), 0);
  const auto state = groups.at(1).at("bytes_full_context").at("bfloat16").to_number<std::int64_t>();
  EXPECT_GE(state, 10 * 2 * 2048 * 4);
  EXPECT_LE(state, 2 * 10 * 2 * 2048 * 4) << "padding is less than what it pads";
  EXPECT_EQ(out.at("kv_bytes_per_token").at("bfloat16"), 6 * 2 * 512 * 2);
}

// Falcon Mamba 7B: nothing is kept of a token, in any type.
TEST(Inspect, StatesAlone) {
  const boost::json::value out = inspect_config(
      R"({"model_type":"falcon_mamba","hidden_size":4096,"intermediate_size":8192,"num_hidden_layers":64})");
  const boost::json::value& groups = out.at("serving").at("kv_groups");
  ASSERT_EQ(groups.as_array().size(), 1u);
  EXPECT_EQ(groups.at(0).at("layers"), 64);
  EXPECT_EQ(groups.at(0).at("state"), true);
  EXPECT_EQ(groups.at(0).at("bytes_per_1024_tokens").at("float32"), 0);
  EXPECT_EQ(out.at("kv_bytes_per_token").at("bfloat16"), 0);
  constexpr std::int64_t kState = std::int64_t{64} * (3 + 16) * 8192 * 4;
  const auto state = groups.at(0).at("bytes_full_context").at("bfloat16").to_number<std::int64_t>();
  EXPECT_GE(state, kState);
  EXPECT_LE(state, kState * 101 / 100) << "padding";
  EXPECT_EQ(out.at("config").at("max_positions"), 1 << 20);
  EXPECT_EQ(out.at("config").at("num_heads"), 0);
}

// The type of keys and values is told where there are some.
TEST(Inspect, NoTypeOfKeysAndValuesBesideStatesAlone) {
  const testing::ScratchFolder scratch;
  for (const auto& [name, type] : {std::pair("mamba", ""), std::pair("jamba", "bfloat16")}) {
    const Outcome outcome = inspect(testing::write_family(name, scratch.path() + "/" + name), true);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(boost::json::parse(outcome.out).at("serving").at("default_kv_cache_dtype"), type) << name;
  }
}

TEST(Inspect, SpeedIsAnEstimateFromWhatATokenReads) {
  const Outcome outcome = inspect(PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/mixtral", true);
  const boost::json::value out = boost::json::parse(outcome.out), serving = out.at("serving");
  EXPECT_EQ(serving.at("family"), "Mixtral 8x7B, 8x22B");
  const std::int64_t active = serving.at("active_weight_bytes").to_number<std::int64_t>();
  EXPECT_GT(active, 0);
  EXPECT_LT(active, out.at("weight_bytes").to_number<std::int64_t>());
  const boost::json::value& speed = serving.at("speed_estimate");
  EXPECT_NEAR(speed.at("tokens_per_second_at_most").to_number<double>() * static_cast<double>(active),
              speed.at("memory_bytes_per_second").to_number<double>(), 1e3);
}

// A tensor that is missing, one of another shape, and one that the model does without.
TEST(Inspect, ComparesTensorsWithThoseOfTheFamily) {
  namespace fs = std::filesystem;
  const fs::path original = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/mixtral";
  const fs::path folder =
      fs::temp_directory_path() / ("pagoda_inspect_tensors_" + std::to_string(::getpid()));
  fs::copy(original, folder);
  std::ifstream in(original / "config.json");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto reason = [&](const char* field, std::int64_t more) -> std::string {
    boost::json::value config = boost::json::parse(text);
    boost::json::value& value = config.at(field);
    value = value.to_number<std::int64_t>() + more;
    std::ofstream(folder / "config.json") << boost::json::serialize(config);
    const Outcome outcome = inspect(folder.string(), true);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const boost::json::value out = boost::json::parse(outcome.out);
    return out.at("supported") == true ? "" : std::string(out.at("reason").as_string());
  };
  EXPECT_EQ(reason("num_hidden_layers", 0), "");
  EXPECT_EQ(reason("num_hidden_layers", -1), "");
  EXPECT_NE(reason("num_hidden_layers", 1).find("' is missing"), std::string::npos);
  EXPECT_NE(reason("intermediate_size", 8).find("has shape ["), std::string::npos);
  EXPECT_NE(reason("vocab_size", 8).find("has shape ["), std::string::npos);
  fs::remove_all(folder);
}

TEST(Inspect, OneLineOnStderr) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "pagoda_inspect_test.gguf";
  std::ofstream(file) << "GGUF\n";
  const Outcome outcome = inspect(file.string(), true);
  std::filesystem::remove(file);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("pagoda: ")) << outcome.err;
}

// Every family, in each format that its fixture has, says that it can be run: nothing is missing, nothing has
// another shape.
TEST(Inspect, FixturesOfAllFamiliesCanBeRun) {
  const std::string root = ::testing::TempDir() + "inspect_families_" + std::to_string(::getpid());
  const auto expect_runs = [](const std::string& path) {
    Result<Description> description = describe(path, {});
    ASSERT_TRUE(description.has_value()) << path << ": " << description.error().message();
    add_facts(*description);
    EXPECT_TRUE(description->supported) << path << ": " << description->reason;
    EXPECT_TRUE(description->facts.has_value()) << path;
  };
  for (const std::string& name : testing::all_families()) {
    const std::string folder = testing::write_family(name, root + "/" + name);
    expect_runs(folder);
    std::filesystem::create_directory(folder + "/gguf");
    if (const std::string gguf = testing::write_family_gguf(name, folder + "/gguf"); !gguf.empty()) {
      expect_runs(gguf);
      if (testing::FusedGguf::write(gguf) > 0) expect_runs(gguf);
    }
    std::filesystem::remove_all(folder);
  }
  std::filesystem::remove_all(root);
}

// Parameters of a folder of tests/fixtures/quantized: its tensors' elements, packed ones as they unpack.
std::int64_t parameters_of(const std::string& name) {
  static const std::map<std::string, std::int64_t> kOthers = {
      {"w8a8_tied", 49344},       {"mxfp4_experts", 98752}, {"mlx_8bit", 55488},
      {"mlx_deepseek", 166596},   {"mlx_gpt_oss", 187600},  {"mlx_mixtral", 98752},
      {"mlx_qwen3_next", 174328}, {"mlx_falcon_h1", 85362}, {"mlx_falcon_h1_tied", 79218},
      {"mlx_bailing", 135812},    {"mlx_lfm2_moe", 187752}, {"mlx_laguna", 140548},
      {"mlx_nemotron_h", 83408}};
  if (const auto found = kOthers.find(name); found != kOthers.end()) return found->second;
  if (name.find("experts") != std::string::npos || name.find("stacked") != std::string::npos) return 98784;
  return name.starts_with("mlx") ? 61632 : 55488;
}

TEST(Inspect, SaysHowAFolderIsQuantised) {
  const std::string root = PAGODA_SOURCE_DIR "/tests/fixtures/quantized/";
  for (const auto& folder : std::filesystem::directory_iterator(root)) {
    Result<Description> description = describe(folder.path(), {});
    ASSERT_TRUE(description.has_value()) << folder.path() << ": " << description.error().message();
    add_facts(*description);
    EXPECT_TRUE(description->supported) << folder.path() << ": " << description->reason;
    const std::string name = folder.path().filename().string();
    EXPECT_TRUE(description->model->unknown_options.empty()) << folder.path();
    EXPECT_EQ(description->parameters(), parameters_of(name)) << folder.path();
  }
  const auto computed = [&](const std::string& name) {
    Description description = *describe(root + name, {});
    add_facts(description);
    return description.facts->default_dtype;
  };
  if (detected_cpu_level() != CpuLevel::portable) {
    EXPECT_EQ(computed("w8a8"), "int8 (activations int8 by token) and bfloat16");
    EXPECT_EQ(computed("fp8_block"), "bfloat16 (activations e4m3 in groups of 128) and bfloat16");
    EXPECT_EQ(computed("awq"), "int8 and bfloat16");
  }
  const auto of = [&](const std::string& name) { return describe(root + name, {})->model->weight_type; };
  EXPECT_EQ(of("awq"), "BF16 (50 %), AWQ (int4 in groups of 32, zero points) (50 %)");
  EXPECT_EQ(of("modelopt_nvfp4"), "BF16 (51 %), modelopt (NVFP4) (49 %)");
  EXPECT_EQ(of("fp8_block"), "FP8 (e4m3 in blocks of 128x128) (63 %), BF16 (37 %)");
}

TEST(HubPaths, TheFirstVariableSetIsTheOne) {
  const char* const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::pair<const char*, std::optional<std::string>>> saved;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    saved.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
    ::unsetenv(name);
  }
  const auto first = [] { return hub_paths_from_environment().cache_dirs.front(); };
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(first(), "/h/.cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(first(), "/x/huggingface/hub");
  ::setenv("HF_HOME", "~/f", 1);
  EXPECT_EQ(first(), "/h/f/hub");
  ::setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(first(), "/old");
  ::setenv("HF_HUB_CACHE", "/new", 1);
  EXPECT_EQ(first(), "/new");
  for (const auto& [name, value] : saved) {
    if (value) {
      ::setenv(name, value->c_str(), 1);
    } else {
      ::unsetenv(name);
    }
  }
}

}  // namespace
}  // namespace pagoda
