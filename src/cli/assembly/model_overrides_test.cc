#include "cli/assembly/model_overrides.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "cli/assembly/sampling_defaults.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

boost::json::value rope_of(const EngineFlags& flags) {
  const auto overrides = model_overrides(flags);
  if (!overrides) {
    ADD_FAILURE() << overrides.error().message();
    return {};
  }
  return overrides->rope.empty() ? boost::json::object() : boost::json::parse(overrides->rope);
}

TEST(ModelOverrides, RotationByLlamaServersNames) {
  EngineFlags flags;
  EXPECT_EQ(rope_of(flags), boost::json::object());
  flags.rope.scale = 4;
  EXPECT_EQ(rope_of(flags), boost::json::parse(R"({"factor":4.0})"));
  flags.max_model_len = 9000;
  EXPECT_EQ(model_overrides(flags)->config, R"({"max_position_embeddings":9000})");
  flags.rope.yarn_original = 32768;
  EXPECT_EQ(rope_of(flags), boost::json::parse(R"({"rope_type":"yarn","factor":4.0,
      "original_max_position_embeddings":32768})"));
  EXPECT_EQ(model_overrides(flags)->config, "") << "yarn's factor says how long";
  flags.rope = {.freq_scale = 0.5, .freq_base = 5e5};
  EXPECT_EQ(rope_of(flags), boost::json::parse(R"({"factor":2.0,"rope_theta":5e5})"));
  flags.rope.scale = 2;
  EXPECT_FALSE(model_overrides(flags));
  flags.rope = {.scaling = "linear", .yarn_beta_fast = 8};
  EXPECT_FALSE(model_overrides(flags));
  flags.rope = {.scaling = "none"};
  EXPECT_EQ(rope_of(flags).at("rope_type"), "default");
}

testing::GgufBuilder bare_model() {
  testing::GgufBuilder model;
  model.string("general.architecture", "llama")
      .u32("llama.context_length", 64)
      .u32("llama.embedding_length", 8)
      .u32("llama.block_count", 1)
      .u32("llama.feed_forward_length", 8)
      .u32("llama.attention.head_count", 2)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-6f)
      .strings("tokenizer.ggml.tokens", {"a"});
  return model;
}

// As generation_config.json has them for a folder.
TEST(SamplingDefaults, OfGgufMetadata) {
  const testing::ScratchFolder scratch;
  const std::string path = scratch.write("m.gguf", bare_model()
                                                       .f32("general.sampling.temp", 0.75f)
                                                       .u32("general.sampling.top_k", 20)
                                                       .f32("general.sampling.top_p", 0.5f)
                                                       .f32("general.sampling.penalty_repeat", 1.25f)
                                                       .build());
  const auto source = ModelSource::open(path);
  ASSERT_TRUE(source) << source.error().message();
  auto defaults = sampling_defaults(**source, "");
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->temperature, 0.75f);
  EXPECT_EQ(defaults->top_k, 20);
  EXPECT_EQ(defaults->top_p, 0.5f);
  EXPECT_EQ(defaults->repetition_penalty, 1.25f);
  EXPECT_EQ(defaults->min_p, std::nullopt);
  defaults = sampling_defaults(**source, R"({"temperature": 0.25, "top_k": null})");
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->temperature, 0.25f);
  EXPECT_EQ(defaults->top_k, std::nullopt);
  EXPECT_EQ(defaults->top_p, 0.5f);
}

TEST(SamplingDefaults, OfAModelWhoseFilesSayNothing) {
  const testing::ScratchFolder scratch;
  const auto source =
      ModelSource::open(scratch.write("SmolLM2-135M-Instruct.Q4_1.gguf", bare_model().build()));
  ASSERT_TRUE(source) << source.error().message();
  auto defaults = sampling_defaults(**source, "");
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->temperature, 0.2f);
  EXPECT_EQ(defaults->top_p, 0.9f);
  EXPECT_EQ(defaults->top_k, std::nullopt);
  defaults = sampling_defaults(**source, R"({"temperature": null, "max_new_tokens": 7})");
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->temperature, std::nullopt);
  EXPECT_EQ(defaults->top_p, 0.9f);
  EXPECT_EQ(defaults->max_tokens, 7);
  defaults = sampling_defaults(**source, "", "vllm");
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->temperature, std::nullopt);
  EXPECT_EQ(defaults->top_p, std::nullopt);

  const auto other = ModelSource::open(scratch.write("my-SmolLM2.gguf", bare_model().build()));
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(sampling_defaults(**other, "")->temperature, std::nullopt);
}

TEST(SamplingDefaults, OfAnotherFileThanTheModels) {
  const testing::ScratchFolder scratch;
  const auto source = ModelSource::open(scratch.write("m.gguf", bare_model().build()));
  ASSERT_TRUE(source) << source.error().message();
  const std::string file = scratch.write("generation_config.json", R"({"temperature": 0.5, "top_k": 3})");
  for (const std::string& path : {file, file.substr(0, file.rfind('/'))}) {
    const auto defaults = sampling_defaults(**source, R"({"top_k": 4})", path);
    ASSERT_TRUE(defaults) << path;
    EXPECT_EQ(defaults->temperature, 0.5f);
    EXPECT_EQ(defaults->top_k, 4);
  }
  EXPECT_FALSE(sampling_defaults(**source, "", file + "x"));
  EXPECT_FALSE(sampling_defaults(**source, "", scratch.write("list.json", "[1]")));
}

TEST(SamplingDefaults, FlagsComeBeforeTheModel) {
  SamplingFlags flags;
  flags.temperature = 0.75;
  flags.max_tokens = 9;
  SamplingDefaults model;
  model.temperature = 0.2f;
  model.top_p = 0.9f;
  const SamplingDefaults defaults = with_flags(model, flags);
  EXPECT_EQ(defaults.temperature, 0.75f);
  EXPECT_EQ(defaults.top_p, 0.9f);
  EXPECT_EQ(defaults.max_tokens, 9);
  EXPECT_EQ(defaults.top_k, std::nullopt);
  EXPECT_EQ(describe(defaults), "default sampling parameters: temperature 0.75, top_p 0.9, max_tokens 9");
  EXPECT_EQ(describe({}), "default sampling parameters: temperature 1");
}

TEST(ModelOverrides, QuantizationIsTheModelsOwn) {
  const std::string fixtures = PAGODA_SOURCE_DIR "/tests/fixtures/";
  const auto answer = [&](const std::string& model, const std::string& quantization) {
    EngineFlags flags;
    flags.model = fixtures + model;
    flags.quantization = quantization;
    const auto source = open_model(flags);
    const std::string message = source ? "" : source.error().message();
    const std::size_t end = message.find("' ");
    return end == message.npos ? message : message.substr(end + 2);
  };
  EXPECT_EQ(answer("tiny_models/llama", ""), "");
  EXPECT_EQ(answer("tiny_models/llama", "fp8"),
            "has F32 weights, used as they are stored: `pagoda quantize --type fp8` makes a folder quantised "
            "so; leave the flag out");
  EXPECT_EQ(answer("tiny_models/llama", "bitsandbytes"),
            "has F32 weights, used as they are stored; leave the flag out");
  EXPECT_EQ(answer("tiny_models/llama", "gguf"), "is not a GGUF file; leave the flag out");
  EXPECT_EQ(answer("tiny_models/llama_gguf_f16", "fp8"),
            "is a GGUF file, whose tensors have types of their own; leave the flag out");
  EXPECT_EQ(answer("tiny_models/llama_gguf_f16", "gguf"), "");
  for (const auto& [model, own] :
       std::initializer_list<std::pair<const char*, const char*>>{{"awq", "awq_marlin"},
                                                                  {"gptq", "gptq"},
                                                                  {"fp8_block", "fp8"},
                                                                  {"w8a8", "compressed-tensors"},
                                                                  {"nf4", "bitsandbytes"},
                                                                  {"modelopt_nvfp4", "modelopt_fp4"}}) {
    const std::string path = std::string("quantized/") + model;
    EXPECT_EQ(answer(path, own), "");
    EXPECT_NE(answer(path, "mxfp4").find(" weights, used as they are stored"), std::string::npos) << model;
  }
}

TEST(ModelOverrides, ActivationsAreTheSchemesButInFloat32) {
  const auto quantized = [](const std::string& activations, const std::string& dtype) {
    EngineFlags flags;
    flags.quantize_activations = activations;
    flags.dtype = dtype;
    return model_overrides(flags)->quantize_activations;
  };
  EXPECT_TRUE(quantized("auto", "auto"));
  EXPECT_TRUE(quantized("auto", "bfloat16"));
  EXPECT_FALSE(quantized("auto", "float32"));
  EXPECT_TRUE(quantized("on", "float32"));
  EXPECT_FALSE(quantized("off", "auto"));
}

}  // namespace
}  // namespace pagoda
