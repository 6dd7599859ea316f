#include <gtest/gtest.h>

#include "base/strings.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"
#include "models/read_config.h"
#include "models/test_layers.h"

namespace pagoda {
namespace {

using testing::as_bytes;
using testing::attention_of;
using testing::first;
using testing::GgufBuilder;
using testing::local_rope_of;
using testing::rope_of;
using testing::windows;

using Windows = std::vector<std::int64_t>;

GgufBuilder llama(std::string_view architecture = "llama", std::uint32_t layers = 2,
                  const std::vector<std::string>& tokens = {"a", "b", "c", "d"}) {
  const std::string arch(architecture);
  GgufBuilder builder;
  builder.string("general.architecture", arch)
      .u32(arch + ".context_length", 512)
      .u32(arch + ".embedding_length", 64)
      .u32(arch + ".block_count", layers)
      .u32(arch + ".feed_forward_length", 128)
      .u32(arch + ".attention.head_count", 4)
      .strings("tokenizer.ggml.tokens", tokens);
  return arch == "gpt2" ? builder.f32("gpt2.attention.layer_norm_epsilon", 1e-5f)
                        : builder.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6f);
}

// Two layers of heads, heads for keys and values, and features.
GgufBuilder uneven(const std::vector<std::uint32_t>& heads, const std::vector<std::uint32_t>& kv_heads,
                   const std::vector<std::uint32_t>& features) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .u32("llama.context_length", 512)
      .u32("llama.embedding_length", 64)
      .u32("llama.block_count", 2)
      .u32("llama.attention.key_length", 8)
      .u32("llama.attention.value_length", 8)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-6f)
      .array<std::uint32_t>("llama.attention.head_count", 4, heads)
      .array<std::uint32_t>("llama.attention.head_count_kv", 4, kv_heads)
      .array<std::uint32_t>("llama.feed_forward_length", 4, features)
      .strings("tokenizer.ggml.tokens", {"a", "b", "c", "d"});
  return builder;
}

Result<ModelInfo> config_of(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  if (!file) return file.error();
  return read_gguf_config(*file);
}

void expect_no_config(const GgufBuilder& builder, std::string_view why) {
  const Result<ModelInfo> config = config_of(builder);
  ASSERT_FALSE(config) << why;
  EXPECT_NE(config.error().message().find(why), std::string::npos) << config.error().message();
}

TEST(GgufConfig, Defaults) {
  const Result<ModelInfo> config = config_of(llama());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->decoder.vocab_size, 4);
  EXPECT_EQ(attention_of(*config).num_kv_heads, 4);
  EXPECT_EQ(attention_of(*config).head_size, 16);
  EXPECT_EQ(rope_of(*config).rotary_size, 16);
  EXPECT_EQ(config->decoder.embedding_size, 64);
  EXPECT_FLOAT_EQ(rope_of(*config).theta, 10000.0f);
  EXPECT_EQ(rope_of(*config).scaling, RopeScaling::none);
  EXPECT_TRUE(config->decoder.interleaved_rows);
  EXPECT_TRUE(config->decoder.tied_head);
  EXPECT_EQ(config->bos_token_id, -1);
  EXPECT_TRUE(config->eos_token_ids.empty());
  EXPECT_EQ(config->decoder.layers.front().dense()->activation, Activation::silu);
}

// Newer files write the kept row's length as the keys' and a head's apart, older ones a head's alone.
TEST(GgufConfig, LatentAttention) {
  const auto file = [](std::uint32_t rank) {
    return llama("deepseek2")
        .u32("deepseek2.attention.kv_lora_rank", rank)
        .u32("deepseek2.rope.dimension_count", 8);
  };
  const auto newer = [&](std::uint32_t head) {
    return file(32)
        .u32("deepseek2.attention.head_count_kv", 1)
        .u32("deepseek2.attention.key_length", 40)
        .u32("deepseek2.attention.value_length", 32)
        .u32("deepseek2.attention.key_length_mla", head)
        .u32("deepseek2.attention.value_length_mla", 12);
  };
  const auto older = file(32)
                         .u32("deepseek2.attention.key_length", 24)
                         .u32("deepseek2.attention.value_length", 12)
                         .u32("deepseek2.attention.q_lora_rank", 20);
  for (const GgufBuilder& builder : {newer(24), older}) {
    const Result<ModelInfo> config = config_of(builder);
    ASSERT_TRUE(config) << config.error().message();
    const auto& latent = first<LatentAttentionConfig>(*config);
    EXPECT_EQ(latent.query_size(), 24);
    EXPECT_EQ(latent.latent_size, 32);
    EXPECT_EQ(latent.nope_size, 16);
    EXPECT_EQ(latent.rope_size, 8);
    EXPECT_EQ(latent.value_size, 12);
  }
  EXPECT_EQ(first<LatentAttentionConfig>(*config_of(newer(24))).query_rank, 0);
  EXPECT_EQ(first<LatentAttentionConfig>(*config_of(older)).query_rank, 20);
  expect_no_config(newer(8), "latent attention");  // nothing of a head meets the latent vector
  expect_no_config(file(0), "attention.kv_lora_rank' must be positive");
  expect_no_config(file(0xffffffff), "kv_lora_rank");
  expect_no_config(llama("deepseek2").u32("deepseek2.rope.dimension_count", 8), "kv_lora_rank");
}

TEST(GgufConfig, ReadsWhatIsWritten) {
  GgufBuilder builder = llama("qwen3");
  builder.array<std::uint32_t>("qwen3.attention.head_count_kv", 4, {2, 2})
      .u32("qwen3.attention.key_length", 32)
      .u32("qwen3.attention.value_length", 32)
      .f32("qwen3.rope.freq_base", 1e6f)
      .string("qwen3.rope.scaling.type", "linear")
      .f32("qwen3.rope.scaling.factor", 4.0f)
      .u32("qwen3.attention.sliding_window", 16)
      .u32("tokenizer.ggml.bos_token_id", 0)
      .u32("tokenizer.ggml.eos_token_id", 1)
      .u32("tokenizer.ggml.eot_token_id", 2)
      .u32("tokenizer.ggml.padding_token_id", 4'294'967'295u)
      .tensor("token_embd.weight", {1, 6}, 0, std::string(24, 'x'))
      .tensor("output.weight", {1, 1}, 1, "xx");
  const Result<ModelInfo> config = config_of(builder);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(attention_of(*config).num_kv_heads, 2);
  EXPECT_EQ(attention_of(*config).head_size, 32);
  EXPECT_FLOAT_EQ(rope_of(*config).theta, 1e6f);
  EXPECT_EQ(rope_of(*config).scaling, RopeScaling::linear);
  EXPECT_FLOAT_EQ(rope_of(*config).factor, 4.0f);
  EXPECT_EQ(windows(*config).front(), 16);
  EXPECT_FALSE(config->decoder.interleaved_rows);
  EXPECT_FALSE(config->decoder.tied_head);
  EXPECT_EQ(config->decoder.vocab_size, 6) << "the embedding's rows decide";
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(config->pad_token_id, -1);
  EXPECT_EQ(config->weight_type, "F32 (92 %), F16 (8 %)");
}

TEST(GgufConfig, TokensThatEndATurnByTheirName) {
  const auto ends = [](const std::vector<std::string>& tokens, std::vector<std::int32_t> types = {}) {
    GgufBuilder builder = llama("llama", 2, tokens);
    builder.u32("tokenizer.ggml.eos_token_id", 0);
    if (!types.empty()) builder.array<std::int32_t>("tokenizer.ggml.token_type", 5, types);
    const Result<ModelInfo> config = config_of(builder);
    EXPECT_TRUE(config) << config.error().message();
    return config ? config->eos_token_ids : std::vector<std::int32_t>{-1};
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ends({"<|endoftext|>", "a", "<|user|>", "<|end|>"}), (Ids{0, 3})) << "Phi-3";
  EXPECT_EQ(ends({"<|endoftext|>", "<|im_start|>", "<|im_end|>"}), (Ids{0, 2})) << "ChatML";
  EXPECT_EQ(ends({"<|return|>", "<|end|>", "<|call|>", "<|endoftext|>"}), (Ids{0, 2, 3})) << "gpt-oss";
  EXPECT_EQ(ends({"<|flush|>", "<|end|>", "<|calls|>"}), (Ids{0, 2})) << "Solar";
  EXPECT_EQ(ends({"<|return|>", "<|end|>"}), (Ids{0, 1}));
  EXPECT_EQ(ends({"a",
                  "<\xEF\xBD\x9C"
                  "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"}),
            (Ids{0, 1}));
  EXPECT_EQ(ends({"a", "</s>"}, {1, 1}), (Ids{0})) << "HTML";
  EXPECT_EQ(ends({"a", "</s>"}, {1, 3}), (Ids{0, 1}));
  EXPECT_EQ(ends({"<eos>", "</s>", "<turn|>", "<|tool_response>"}, {3, 3, 3, 3}), (Ids{0, 2, 3}))
      << "Gemma 4";
  EXPECT_EQ(ends({"a", "<|end|>", "<|end|>"}), (Ids{0, 1})) << "the first of equal spellings is the token";
}

TEST(GgufConfig, ListsOfEnds) {
  const Result<ModelInfo> config =
      config_of(llama("llama", 2, std::vector<std::string>(16, "a"))
                    .u32("tokenizer.ggml.eos_token_id", 3)
                    .u32("tokenizer.ggml.eom_token_id", 4)
                    .u32("tokenizer.ggml.fim_sep_token_id", 6)
                    .array<std::int32_t>("tokenizer.ggml.eos_token_ids", 5, {3, 7, -1, 99}));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{3, 4, 6, 7}));
  EXPECT_EQ(config->unknown_eos_token_ids, (std::vector<std::int32_t>{99}));
}

TEST(GgufConfig, Gpt2) {
  const Result<ModelInfo> config = config_of(llama("gpt2"));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->decoder.layers.front().dense()->activation, Activation::gelu_tanh);
  EXPECT_FLOAT_EQ(config->decoder.layers.front().norm.eps, 1e-5f);
}

TEST(GgufConfig, Gemma3WithItsWindowsAndScales) {
  GgufBuilder gemma = llama("gemma3", 2, {"a", "b", "<end_of_turn>", "d"});
  gemma.u32("gemma3.attention.sliding_window", 16).u32("tokenizer.ggml.eos_token_id", 1);
  Result<ModelInfo> config = config_of(gemma);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(windows(*config), (Windows{16, 16}));  // the sixth would attend to all
  EXPECT_FLOAT_EQ(local_rope_of(*config).theta, 10000.0f);
  EXPECT_EQ(config->decoder.final_norm->weight_offset, 0) << "the file's norms hold their 1";
  EXPECT_FLOAT_EQ(attention_of(*config).scale, 0.25f);
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(config->decoder.layers.front().dense()->activation, Activation::gelu_tanh);

  config = config_of(GgufBuilder(gemma)
                         .array<std::uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1})
                         .f32("gemma3.rope.freq_base_swa", 100.0f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(windows(*config), (Windows{0, 16}));
  EXPECT_FLOAT_EQ(local_rope_of(*config).theta, 100.0f);

  config = config_of(GgufBuilder(gemma).u32("gemma3.attention.sliding_window_pattern", 2));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(windows(*config), (Windows{16, 0}));
  expect_no_config(GgufBuilder(gemma).array<std::uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0}),
                   "not given for every layer");
  config = config_of(llama("gemma3", 62));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FLOAT_EQ(attention_of(*config).scale, 0.25f) << "the 27B model: width 64, 4 heads";
}

TEST(GgufConfig, Variants) {
  Result<ModelInfo> config = config_of(llama("granite")
                                           .f32("granite.embedding_scale", 12.0f)
                                           .f32("granite.residual_scale", 0.5f)
                                           .f32("granite.attention.scale", 0.25f)
                                           .f32("granite.logit_scale", 8.0f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FLOAT_EQ(config->decoder.embedding_scale, 12);
  EXPECT_FLOAT_EQ(config->decoder.layers.front().residual_scale, 0.5f);
  EXPECT_FLOAT_EQ(attention_of(*config).scale, 0.25f);
  EXPECT_FLOAT_EQ(config->decoder.logit_scale, 0.125f);
  EXPECT_TRUE(config->decoder.interleaved_rows);
  expect_no_config(llama("granite").f32("granite.logit_scale", 0.0f), "logit scale");
  config = config_of(llama("smollm3", 4));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(testing::rotating(*config), (std::vector<bool>{true, true, true, false}));
  config = config_of(llama("olmo2", 4).u32("olmo2.attention.sliding_window", 8));  // OLMo 3
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(windows(*config), (Windows{8, 8, 8, 0}));
  EXPECT_FLOAT_EQ(local_rope_of(*config).theta, 10000.0f);
}

TEST(GgufConfig, RotationsOfLongContexts) {
  Result<ModelInfo> config = config_of(llama("mistral3")
                                           .string("mistral3.rope.scaling.type", "yarn")
                                           .f32("mistral3.rope.scaling.factor", 4.0f)
                                           .u32("mistral3.rope.scaling.original_context_length", 32)
                                           .f32("mistral3.rope.scaling.yarn_beta_fast", 8.0f)
                                           .f32("mistral3.rope.scaling.yarn_log_multiplier", 1.0f)
                                           .f32("mistral3.attention.temperature_scale", 0.1f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(rope_of(*config).scaling, RopeScaling::yarn);
  EXPECT_EQ(rope_of(*config).original_positions, 32);
  EXPECT_FLOAT_EQ(rope_of(*config).beta_fast, 8.0f);
  EXPECT_FLOAT_EQ(rope_of(*config).attention_factor, 1.0f);
  EXPECT_FLOAT_EQ(attention_of(*config).temperature_beta, 0.1f);
  EXPECT_EQ(attention_of(*config).temperature_positions, 32);
  config = config_of(llama("phi3")
                         .string("phi3.rope.scaling.type", "longrope")
                         .u32("phi3.rope.scaling.original_context_length", 16)
                         .f32("phi3.rope.scaling.attn_factor", 1.5f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(rope_of(*config).scaling, RopeScaling::longrope);
  EXPECT_FLOAT_EQ(rope_of(*config).attention_factor, 1.5f);
}

TEST(GgufConfig, SoftCapsAndHalvesThatSeeTheSame) {
  Result<ModelInfo> config = config_of(llama("gemma2", 4)
                                           .f32("gemma2.attn_logit_softcapping", 50.0f)
                                           .f32("gemma2.final_logit_softcapping", 30.0f)
                                           .u32("gemma2.attention.sliding_window", 8));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FLOAT_EQ(attention_of(*config).softcap, 50);
  EXPECT_FLOAT_EQ(config->decoder.logit_softcap, 30);
  EXPECT_EQ(windows(*config), (Windows{8, 0, 8, 0}));
  expect_no_config(llama("gemma2").f32("gemma2.attn_logit_softcapping", -1.0f), "soft cap");
  config = config_of(llama("stablelm").f32("stablelm.attention.layer_norm_epsilon", 1e-5f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FALSE(config->decoder.layers.front().parallel);
  config = config_of(llama("command-r").f32("command-r.attention.layer_norm_epsilon", 1e-5f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_TRUE(config->decoder.layers.front().parallel);
}

TEST(GgufConfig, RefusesByName) {
  expect_no_config(GgufBuilder().u32("a", 1), "'general.architecture' is missing");
  expect_no_config(llama("rwkv7"),
                   "architecture 'rwkv7' is not supported; docs/models.md lists all that are");
  expect_no_config(llama("qwen4"), "the nearest that is: qwen");
  expect_no_config(GgufBuilder()
                       .string("general.architecture", "llama")
                       .string("general.type", "adapter")
                       .string("adapter.type", "lora")
                       .string("general.base_model.0.name", "Llama 3.1 8B"),
                   "the file is an adapter (lora) of Llama 3.1 8B, not a model");
  expect_no_config(llama().u32("llama.expert_count", 8), "'llama.expert_used_count' is missing");
  expect_no_config(llama().u32("llama.expert_count", 8).u32("llama.expert_used_count", 9),
                   "cannot use 9 of 8 experts");
  expect_no_config(llama()
                       .u32("llama.expert_count", 8)
                       .u32("llama.expert_used_count", 2)
                       .u32("llama.expert_gating_func", 7),
                   "'expert_gating_func' = 7 is not supported; supported: 1, 2, 3");
  expect_no_config(llama().string("llama.rope.scaling.type", "yarrow"),
                   "rope scaling type 'yarrow' is not supported");
  expect_no_config(llama().string("llama.rope.scaling.type", "yarn").f32("llama.rope.freq_base", 0.5f),
                   "rope theta");
  expect_no_config(llama().f32("llama.attention.scale", 0.5f), "'llama.attention.scale' is not supported");
  expect_no_config(llama().array<std::uint32_t>("llama.attention.head_count_kv", 4, {2, 4, 2}),
                   "entries for");
  expect_no_config(llama().array<std::uint32_t>("llama.attention.head_count_kv", 4, {2, 3}),
                   "not a multiple");
  expect_no_config(uneven({2, 4}, {2, 1}, {64, 0}), "feed-forward size is 0");
  expect_no_config(uneven({2, 4}, {2, 1}, {64, 96, 96}), "entries for");
  expect_no_config(llama().f32("llama.attention.new_scale", 0.5f),
                   "'llama.attention.new_scale' is not supported");
  expect_no_config(llama().u32("llama.attention.head_count_kv", 3), "not a multiple");
  expect_no_config(llama().u32("llama.attention.value_length", 8), "value heads");
  expect_no_config(llama().string("llama.attention.head_count_kv", "x"), "must be an integer");
  expect_no_config(llama().u32("llama.rope.dimension_count", 17), "rotary dimension 17");
  expect_no_config(GgufBuilder().string("general.architecture", "llama"), "is missing");
  EXPECT_TRUE(config_of(llama().f32("llama.some_future_scale", 0.0f))) << "an option that is off is harmless";
}

// Granite 4's files whose layers all attend keep the sizes of states.
TEST(GgufConfig, SizesOfStatesThatNoLayerHas) {
  for (const std::string_view name : {"granite", "granitemoe"})
    EXPECT_TRUE(config_of(
        llama(name).u32(concat(name, ".ssm.conv_kernel"), 4).u32(concat(name, ".ssm.state_size"), 128)));
  EXPECT_TRUE(config_of(llama("granite").u32("granite.expert_shared_feed_forward_length", 128)));
  expect_no_config(llama().u32("llama.ssm.conv_kernel", 4), "'llama.ssm.conv_kernel' is not supported");
}

TEST(GgufConfig, ClipsAndExperts) {
  const auto config = config_of(
      llama("mpt").f32("mpt.attention.layer_norm_epsilon", 1e-5f).f32("mpt.attention.clamp_kqv", 6));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FLOAT_EQ(attention_of(*config).clip, 6);
  expect_no_config(llama("phimoe").u32("phimoe.expert_count", 4).u32("phimoe.expert_used_count", 1),
                   "'phimoe.expert_used_count' other than 2");
}

// Converters lose what these would need.
TEST(GgufConfig, RefusesWhatFilesCannotSay) {
  const GgufBuilder olmo = llama("olmo").f32("olmo.attention.layer_norm_epsilon", 1e-5f);
  EXPECT_TRUE(config_of(olmo));
  for (const char* name : {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_qkv.bias"})
    expect_no_config(GgufBuilder(olmo).tensor(name, {1}, 0, "1234"), concat("tensor '", name, "'"));

  GgufBuilder falcon = llama("falcon-h1");
  for (const auto& [key, value] : {std::pair("falcon-h1.ssm.conv_kernel", 4u),
                                   {"falcon-h1.ssm.time_step_rank", 4u},
                                   {"falcon-h1.ssm.group_count", 1u},
                                   {"falcon-h1.ssm.state_size", 16u},
                                   {"falcon-h1.ssm.inner_size", 64u}})
    falcon.u32(key, value);
  falcon.tensor("blk.0.ssm_out.weight", {1}, 0, "1234").tensor("blk.1.ssm_out.weight", {1}, 0, "1234");
  expect_no_config(falcon, "no head (output.weight)");
  auto config = config_of(GgufBuilder(falcon).f32("falcon-h1.logit_scale", 0.25f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FLOAT_EQ(config->decoder.logit_scale, 0.25f);
  config = config_of(GgufBuilder(falcon).tensor("output.weight", {1}, 0, "1234"));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FLOAT_EQ(config->decoder.logit_scale, 1);
}

TEST(GgufConfig, ListsWhatNobodyKnows) {
  const auto config = config_of(llama().f32("llama.some_hint", 2.0f));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->unknown_options, (std::vector<std::string>{"llama.some_hint"}));
  EXPECT_TRUE(config_of(llama())->unknown_options.empty());
}

// llama.cpp's converter writes the width where config.json of GLM 4 has no context.
TEST(GgufConfig, ContextOfGlm) {
  const auto context = [](const GgufBuilder& builder) {
    const auto config = config_of(builder);
    return config ? config->decoder.max_positions : -1;
  };
  GgufBuilder glm;
  for (const auto& [key, value] : {std::pair("chatglm.context_length", 64u),
                                   {"chatglm.embedding_length", 64u},
                                   {"chatglm.block_count", 2u},
                                   {"chatglm.feed_forward_length", 128u},
                                   {"chatglm.attention.head_count", 4u}})
    glm.u32(key, value);
  glm.string("general.architecture", "chatglm")
      .f32("chatglm.attention.layer_norm_rms_epsilon", 1e-6f)
      .strings("tokenizer.ggml.tokens", {"a"});
  EXPECT_EQ(context(glm), 131072);
  EXPECT_EQ(context(llama("chatglm")), 512);
}

TEST(GgufConfig, LayersMayDifferInAnyFamily) {
  const auto config = config_of(uneven({2, 4}, {2, 1}, {64, 96}));
  ASSERT_TRUE(config) << config.error().message();
  const std::vector<LayerConfig>& layers = config->decoder.layers;
  EXPECT_EQ(head_sizes(config->decoder).num_heads, 4);
  EXPECT_EQ(layers[0].attention()->num_heads, 2);
  EXPECT_EQ(layers[0].attention()->num_kv_heads, 2);
  EXPECT_EQ(layers[1].attention()->num_kv_heads, 1);
  EXPECT_EQ(layers[1].dense()->intermediate_size, 96);
  EXPECT_EQ(layers[1].attention()->head_size, 8);
}

TEST(GgufConfig, ReadsTheFixtureAndTheSharedModel) {
  const Result<GgufFile> fixture = GgufFile::open(testing::loader_fixture("all_types.gguf"));
  ASSERT_TRUE(fixture) << fixture.error().message();
  const Result<ModelInfo> config = read_gguf_config(*fixture);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->name, "every type");
  EXPECT_EQ(attention_of(*config).num_kv_heads, 2);

  const std::string path = testing::shared_path("models/stories260K/stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "the shared test data is not on this machine";
  const Result<GgufFile> stories = GgufFile::open(path);
  ASSERT_TRUE(stories) << stories.error().message();
  const Result<ModelInfo> shared = read_gguf_config(*stories);
  ASSERT_TRUE(shared) << shared.error().message();
  EXPECT_EQ(shared->decoder.num_layers(), 5);
  EXPECT_EQ(shared->decoder.vocab_size, 512);
}

}  // namespace
}  // namespace pagoda
