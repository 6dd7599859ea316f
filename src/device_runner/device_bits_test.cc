// Goal: a runner takes warpgroups where the device's have the bits of its warps; what has others is computed
// by warps, with the same tokens, and the log says so; or it is refused, where it was asked for.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "device/emulated/emulated_device.h"
#include "device_runner/device_model_runner.h"
#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"

namespace pagoda::device_runner {
namespace {

using device::emulated::EmulatedOptions;
using namespace pagoda::testing;

// Random weights, and heads of 64, which attend by warpgroups. Two layers: behind the last one's attention
// only rows that are drawn from go on.
std::string model_folder() {
  const std::string where = ::testing::TempDir() + "pagoda_device_bits";
  std::filesystem::create_directories(where);
  std::ofstream(where + "/config.json") << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2})";
  std::vector<FamilyTensor> tensors;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns, double offset) {
    boost::json::array shape = {rows};
    if (columns > 0) shape.push_back(columns);
    tensors.push_back(
        {name, shape, family_weights(1, name, rows * std::max<std::int64_t>(columns, 1), offset, 0.2)});
  };
  add("model.embed_tokens.weight", 64, 128, 0);
  add("model.norm.weight", 128, 0, 1);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      add(layer + norm + ".weight", 128, 0, 1);
    add(layer + "self_attn.q_proj.weight", 128, 128, 0);
    add(layer + "self_attn.k_proj.weight", 64, 128, 0);
    add(layer + "self_attn.v_proj.weight", 64, 128, 0);
    add(layer + "self_attn.o_proj.weight", 128, 128, 0);
    add(layer + "mlp.gate_proj.weight", 192, 128, 0);
    add(layer + "mlp.up_proj.weight", 192, 128, 0);
    add(layer + "mlp.down_proj.weight", 128, 192, 0);
  }
  write_safetensors(where + "/model.safetensors", tensors);
  return where;
}

std::unique_ptr<device::Device> make_device(const EmulatedOptions& options) {
  return *device::emulated::EmulatedDevice::create(options);
}

Result<std::unique_ptr<DeviceModelRunner>> open_for_bits(std::unique_ptr<device::Device> device,
                                                         const DeviceKernels& kernels) {
  auto source = ModelSource::open(model_folder());
  if (!source) return source.error();
  RunnerOptions options = {.dtype = "bfloat16"};
  options.num_blocks = 80, options.max_context = 64, options.max_num_seqs = 12;
  options.max_num_batched_tokens = 128;
  return DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                   std::move(device), kernels);
}

struct Ran {
  std::vector<std::vector<TokenId>> tokens;
  std::map<std::string, std::int64_t> launches;
  std::string log;
  std::int64_t launched(std::string_view prefix) const {
    std::int64_t sum = 0;
    for (const auto& [name, count] : launches)
      if (name.starts_with(prefix)) sum += count;
    return sum;
  }
};

// Prompts of 120 tokens together, then two steps of 12 sequences.
Ran run_options(const EmulatedOptions& options) {
  Ran ran;
  auto device = make_device(options);
  device::Device& profiled = *device;
  ::testing::internal::CaptureStderr();
  auto runner = open_for_bits(std::move(device), {.graphs = GraphUse::off});
  ran.log = ::testing::internal::GetCapturedStderr();
  if (!runner) {
    ADD_FAILURE() << runner.error().message();
    return ran;
  }
  EXPECT_TRUE(profiled.start_profile().ok());
  Driver driver(**runner, 16);
  std::vector<TestSequence> sequences;
  for (TokenId i = 0; i < 12; ++i) sequences.push_back(greedy({3, 14 + i, 15, 9, 5, 8, 30, 20 + i, 4, 7}));
  std::vector<TestSequence*> all;
  for (TestSequence& sequence : sequences) {
    sequence.params.logprobs.reset();
    all.push_back(&sequence);
  }
  EXPECT_TRUE(driver.generate(all, 3).ok());
  const auto times = profiled.end_profile();
  EXPECT_TRUE(times.has_value());
  for (const device::KernelTime& time : *times) ran.launches[time.kernel] = time.launches;
  for (const TestSequence& sequence : sequences) ran.tokens.push_back(sequence.tokens);
  return ran;
}

TEST(DeviceBits, WhatWarpgroupsComputeWithOtherBitsIsLeftToWarps) {
  struct Case {
    const char *backward, *said, *form;  // a planted kernel; and the kernels of its form
  };
  const Case all[] = {
      {"linear_narrow_112_64", "a product of some rows (narrow_rows) by warpgroups has", "linear_narrow_"},
      {"linear_bulk_gated_64", "a gated product (bulk_gated) by warpgroups has", "linear_bulk_gated_"},
      {"linear_bulk_256", "a product of many rows (bulk_rows) by warpgroups has", "linear_bulk_"},
      {"attend_bulk_64", "attention of prompts by warpgroups has", "attend_bulk_"}};
  const Ran warps = run_options({.clusters = false}), kept = run_options({});
  EXPECT_EQ(warps.tokens, kept.tokens);
  EXPECT_EQ(kept.log.find("by warpgroups"), std::string::npos) << kept.log;
  for (const Case& of : all) {
    SCOPED_TRACE(of.backward);
    EXPECT_EQ(warps.launched(of.form), 0);
    EXPECT_GT(kept.launched(of.form), 0);
    const Ran ran = run_options({.backward_kernels = of.backward});
    EXPECT_NE(ran.log.find(of.said), std::string::npos) << ran.log;
    EXPECT_EQ(ran.log.find("other bits"), ran.log.rfind("other bits")) << ran.log;  // nothing else has
    EXPECT_EQ(ran.launched(of.form), 0);
    EXPECT_EQ(ran.tokens, warps.tokens);
  }
}

TEST(DeviceBits, AttentionThatWasAskedForIsRefused) {
  const auto runner = open_for_bits(make_device({.backward_kernels = "attend_bulk_64"}),
                                    {.attention = AttentionKernels::warpgroups});
  ASSERT_FALSE(runner.has_value());
  EXPECT_EQ(runner.error().code(), StatusCode::unavailable);
  EXPECT_NE(
      runner.error().message().find(
          "attention of prompts by warpgroups has other bits than by warps: use --device-attention tiles"),
      std::string::npos);
}

}  // namespace
}  // namespace pagoda::device_runner
