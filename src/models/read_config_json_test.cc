#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/strings.h"
#include "loader/json_overrides.h"
#include "loader/test_files.h"
#include "models/read_config.h"
#include "models/reading.h"
#include "models/test_layers.h"

namespace pagoda {
namespace {

namespace json = boost::json;

using testing::attention_of;
using testing::first;
using testing::recurrent;
using testing::rope_of;
using testing::rotating;
using testing::windows;
using testing::with_mixture;

// Goal: absent and null fields get the values that transformers gives them. Method: each case's
// expectation was written by transformers itself (tests/fixtures/make_models.py).
TEST(ConfigJson, AgreesWithTransformers) {
  const std::string text = testing::read_binary(testing::loader_fixture("config_cases.json"));
  ASSERT_FALSE(text.empty());
  const json::value cases = json::parse(text);
  EXPECT_GT(cases.as_array().size(), 30u);
  for (const json::value& each : cases.as_array()) {
    const std::string config_text = json::serialize(each.at("config"));
    SCOPED_TRACE(config_text);
    const Result<ModelInfo> config = read_config_json(config_text);
    ASSERT_TRUE(config) << config.error().message();
    const json::object& expected = each.at("expected").as_object();
    const auto integer = [&](const char* name) { return expected.at(name).to_number<std::int64_t>(); };
    const DecoderConfig& decoder = config->decoder;
    const HeadSizes heads = head_sizes(decoder);
    const LayerConfig& layer = decoder.layers.front();
    const auto number = [&](const char* name) {
      return static_cast<float>(expected.at(name).to_number<double>());
    };
    EXPECT_EQ(decoder.vocab_size, integer("vocab_size"));
    EXPECT_EQ(decoder.hidden_size, integer("hidden_size"));
    EXPECT_EQ(decoder.num_layers(), integer("num_layers"));
    EXPECT_EQ(heads.num_heads, integer("num_heads"));
    EXPECT_EQ(heads.num_kv_heads, integer("num_kv_heads"));
    EXPECT_EQ(heads.head_size, integer("head_size"));
    EXPECT_EQ(config->intermediate_size, integer("intermediate_size"));
    EXPECT_EQ(decoder.max_positions, integer("max_positions"));
    EXPECT_EQ(decoder.tied_head, expected.at("tie_embeddings").as_bool());
    EXPECT_FLOAT_EQ(layer.norm.eps, number("norm_eps"));
    const Activation activation = layer.mixture() != nullptr ? layer.mixture()->expert.activation
                                  : layer.dense() != nullptr ? layer.dense()->activation
                                                             : Activation::silu;
    if (activation != Activation::clamped_silu)
      EXPECT_EQ(activation, *activation_named(std::string(expected.at("activation").as_string())));
    EXPECT_EQ(windows(*config), json::value_to<std::vector<std::int64_t>>(expected.at("windows")));
    std::vector<std::int32_t> eos = json::value_to<std::vector<std::int32_t>>(expected.at("eos"));
    std::erase_if(eos, [&](std::int32_t id) { return id >= decoder.vocab_size; });
    EXPECT_EQ(config->eos_token_ids, eos);
    EXPECT_EQ(config->bos_token_id, integer("bos") < decoder.vocab_size ? integer("bos") : -1);
    if (expected.contains("rope_type")) {
      const json::string& type = expected.at("rope_type").as_string();
      const RopeConfig& rope = rope_of(*config);
      EXPECT_EQ(rope.scaling, type == "llama3"   ? RopeScaling::llama3
                              : type == "linear" ? RopeScaling::linear
                                                 : RopeScaling::none);
      EXPECT_FLOAT_EQ(rope.theta, number("rope_theta"));
      if (expected.contains("rope_local_theta")) {
        EXPECT_FLOAT_EQ(testing::local_rope_of(*config).theta, number("rope_local_theta"));
        EXPECT_FLOAT_EQ(attention_of(*config).scale, number("attention_scale"));
      }
      EXPECT_FLOAT_EQ(rope.factor, number("rope_factor"));
      EXPECT_EQ(rope.original_positions, integer("rope_original_positions"));
      EXPECT_EQ(rope.rotary_size,
                expected.contains("rotary_size") ? integer("rotary_size") : heads.head_size);
      for (const auto& [name, value] : {std::pair("attention_softcap", attention_of(*config).softcap),
                                        std::pair("logit_softcap", decoder.logit_softcap),
                                        std::pair("logit_scale", decoder.logit_scale)}) {
        if (expected.contains(name)) EXPECT_FLOAT_EQ(value, number(name)) << name;
      }
    }
    if (expected.contains("experts")) {
      const MixtureConfig& mixture = first<MixtureConfig>(*config);
      EXPECT_EQ(mixture.routing.num_experts, integer("experts"));
      EXPECT_EQ(mixture.routing.per_token, integer("experts_per_token"));
      EXPECT_EQ(mixture.expert.intermediate_size, integer("expert_size"));
      EXPECT_EQ(mixture.shared_intermediate_size, integer("shared_expert_size"));
      EXPECT_EQ(mixture.routing.renormalize, expected.at("renormalize").as_bool());
      std::vector<std::int64_t> layers;
      for (const bool has : with_mixture(*config)) layers.push_back(has);
      EXPECT_EQ(layers, json::value_to<std::vector<std::int64_t>>(expected.at("mixtures")));
    } else {
      EXPECT_EQ(first<MixtureConfig>(*config).routing.num_experts, 0);
    }
    if (expected.contains("embedding_size")) {
      EXPECT_EQ(decoder.embedding_size, integer("embedding_size"));
      EXPECT_EQ(layer.mixer_norms.input, expected.at("norm_before").as_bool());
      EXPECT_EQ(decoder.final_norm.has_value(), expected.at("final_norm").as_bool());
    } else {
      EXPECT_EQ(decoder.embedding_size, decoder.hidden_size);
    }
  }
}

TEST(ConfigJson, MergesGenerationConfig) {
  const Result<ModelInfo> config =
      read_config_json(R"({"model_type":"llama","eos_token_id":2})", R"({"eos_token_id":[5,2,7]})");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{2, 5, 7}));
}

TEST(ConfigJson, Overrides) {
  const std::string text = R"({"a": 1, "rope": {"theta": 2, "type": "x"}, "b": [1]})";
  EXPECT_EQ(*with_overrides(text, ""), text);
  EXPECT_EQ(json::parse(*with_overrides(text, R"({"rope": {"theta": 3}, "b": 7, "a": null, "c": true})")),
            json::parse(R"({"rope": {"theta": 3, "type": "x"}, "b": 7, "c": true})"));
  EXPECT_EQ(with_overrides(text, "{").error().code(), StatusCode::invalid_argument);
  EXPECT_EQ(with_overrides(text, "[1]").error().code(), StatusCode::invalid_argument);
  EXPECT_EQ(with_overrides("[]", "{}").error().code(), StatusCode::corrupt_data);
}

// In whichever form the file has its rotation.
TEST(ConfigJson, OverridesOfARotation) {
  const auto read = [](const std::string& more) {
    const auto text =
        with_rope(R"({"model_type":"llama")" + more + "}",
                  R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":512})");
    const auto config = read_config_json(*text);
    EXPECT_TRUE(config) << config.error().message();
    return config ? *config : ModelInfo{};
  };
  for (const char* more :
       {R"(,"rope_theta":5e5)", R"(,"rope_theta":5e5,"rope_scaling":null)",
        R"(,"rope_theta":5e5,"rope_scaling":{"type":"linear","rope_type":"linear","factor":2.0})",
        R"(,"rope_parameters":{"rope_theta":5e5,"rope_type":"default"})"}) {
    const ModelInfo config = read(more);
    EXPECT_EQ(rope_of(config).scaling, RopeScaling::yarn) << more;
    EXPECT_FLOAT_EQ(rope_of(config).theta, 5e5f) << more;
    EXPECT_FLOAT_EQ(rope_of(config).factor, 4) << more;
    EXPECT_EQ(config.decoder.max_positions, 2048) << more;
  }
  const std::string wrapped =
      *with_rope(R"({"text_config":{"rope_parameters":{"full_attention":{"rope_theta":7.0}}}})",
                 R"({"factor":2.0,"rope_theta":9.0})");
  EXPECT_EQ(json::parse(wrapped), json::parse(R"({"text_config":{"rope_theta":9.0,
      "rope_parameters":{"full_attention":{"rope_theta":9.0,"rope_type":"linear","factor":2.0}}}})"));
}

// --rope-scale alone: YaRN where the model has it, else linear.
TEST(ConfigJson, AFactorWithoutAType) {
  const auto read = [](const std::string& more, const std::string& rope) {
    const auto config = read_config_json(*with_rope(R"({"model_type":"llama")" + more + "}", rope));
    EXPECT_TRUE(config) << config.error().message();
    return config ? *config : ModelInfo{};
  };
  const std::string yarn =
      R"(,"rope_parameters":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":512})";
  EXPECT_EQ(rope_of(read(yarn, R"({"factor":8.0})")).scaling, RopeScaling::yarn);
  EXPECT_FLOAT_EQ(rope_of(read(yarn, R"({"factor":8.0})")).factor, 8);
  EXPECT_EQ(rope_of(read("", R"({"factor":8.0})")).scaling, RopeScaling::linear);
}

// Also where the entry is new beside rope_parameters, which have their own.
TEST(ConfigJson, OverridesOfTheBase) {
  const std::string text =
      R"({"model_type":"llama","rope_parameters":{"rope_theta":5e5,"rope_type":"default"}})";
  for (const std::string& changed : {*with_rope(text, R"({"rope_theta":300.0})"),
                                     *with_rope(*with_overrides(text, R"({"rope_theta":300.0})"),
                                                rope_theta_of(R"({"rope_theta":300.0})"))}) {
    const auto config = read_config_json(changed);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_FLOAT_EQ(rope_of(*config).theta, 300) << changed;
    EXPECT_EQ(rope_of(*config).scaling, RopeScaling::none);
  }
  EXPECT_EQ(rope_theta_of(R"({"text_config":{"rope_theta":7}})"), R"({"rope_theta":7})");
  EXPECT_EQ(rope_theta_of(R"({"rope_theta":7,"rope_parameters":{"rope_theta":8}})"), "");
  EXPECT_EQ(*with_rope(R"({"rope_theta":1})", R"({"rope_theta":300})"), R"({"rope_theta":300})");
}

TEST(ConfigJson, RefusesByName) {
  const auto refused = [](std::string_view fields, std::string_view why) {
    const std::string text = R"({"model_type":"llama")" + std::string(fields) + "}";
    const Result<ModelInfo> config = read_config_json(text);
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().message().find(why), std::string::npos)
        << text << " gives: " << config.error().message();
  };
  refused(R"(,"architectures":["RwkvForCausalLM"])",
          "architecture 'RwkvForCausalLM' is not supported; docs/models.md lists all that are");
  refused(R"(,"architectures":["Qwen2ForCausalLM"])", "'model_type' says 'llama'");
  refused(R"(,"rope_scaling":{"rope_type":"yarrow","factor":4})",
          "type 'yarrow' is not supported; supported: default, linear");
  refused(R"(,"rope_scaling":{"rope_type":"linear"})", "'rope_scaling.factor' must be given");
  refused(R"(,"rope_scaling":"linear")", "'rope_scaling' must be an object");
  refused(R"(,"rope_parameters":{"full_attention":{"rope_theta":1}})", "for 'full_attention' layers");
  refused(R"(,"partial_rotary_factor":0.5)", "'partial_rotary_factor' = 0.5 is not supported");
  refused(R"(,"hidden_act":"quick_gelu")", "activation 'quick_gelu' is not supported; supported: silu");
  refused(R"(,"quantization_config":{"quant_method":"gptq","bits":5})",
          "quantised by GPTQ in 5 bits are not supported");
  refused(R"(,"final_logit_softcapping":30.0)", "'final_logit_softcapping'");
  refused(R"(,"num_attention_heads":0)", "number of attention heads is 0");
  refused(R"(,"num_attention_heads":12,"num_key_value_heads":5)", "not a multiple");
  refused(R"(,"hidden_size":"big")", "'hidden_size' must be an integer");
  refused(R"(,"hidden_size":4096.5)", "'hidden_size' must be an integer");
  refused(R"(,"hidden_size":1e30)", "'hidden_size' must be an integer");
  refused(R"(,"hidden_size":-5)", "hidden size is -5");
  refused(R"(,"vocab_size":2000000000)", "vocabulary size is 2000000000");
  refused(R"(,"head_dim":7)", "rotary dimension 7");
  refused(R"(,"rms_norm_eps":1e400)", "norm epsilon");
  refused(R"(,"tie_word_embeddings":1)", "'tie_word_embeddings' must be true or false");
  refused(R"(,"eos_token_id":["a"])", "'eos_token_id'");
  refused(R"(,"architectures":[1])", "'architectures'");
  for (const char* text : {"", "{", "[]", "null", "{\"a\":1}{", "{\"model_type\":\"\xFF\"}", "{}"}) {
    EXPECT_FALSE(read_config_json(text)) << text;
  }
  EXPECT_FALSE(read_config_json(R"({"model_type":"gpt2","scale_attn_weights":false})"));
  EXPECT_FALSE(read_config_json(R"({"model_type":"gpt2","scale_attn_by_inverse_layer_idx":true})"));
  EXPECT_FALSE(read_config_json(R"({"model_type":"opt","layer_norm_elementwise_affine":false})"));
  EXPECT_FALSE(read_config_json(
      R"({"model_type":"qwen3","num_hidden_layers":2,"use_sliding_window":true,"layer_types":["chunked_attention","full_attention"]})"));
  EXPECT_FALSE(read_config_json(
      R"({"model_type":"qwen3","num_hidden_layers":2,"use_sliding_window":true,"layer_types":["full_attention"]})"));
  EXPECT_FALSE(read_config_json(std::string(100'000, '[')));
}

TEST(ConfigJson, ListsWhatNobodyKnows) {
  const auto read = [](std::string_view more) {
    return read_config_json(R"({"model_type":"llama","use_cache":true)" + std::string(more) + "}");
  };
  EXPECT_TRUE(read("")->unknown_options.empty());
  const auto config = read(
      R"(,"new_hint":1,"other":null,"off":false,"rope_scaling":{"rope_type":"linear","factor":2.0,"new_base":3})");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->unknown_options, (std::vector<std::string>{"rope_scaling.new_base", "new_hint"}));
  for (const char* more : {R"(,"scale_emb":12)", R"(,"use_sliding_window":true)",
                           R"(,"layer_types":["sliding_attention"])", R"(,"kv_lora_rank":512)"})
    EXPECT_EQ(read(more).error().code(), StatusCode::unimplemented) << more;
  for (const char* more : {R"(,"layer_types":["full_attention"])", R"(,"use_sliding_window":false)"})
    EXPECT_TRUE(read(more)) << more;
}

TEST(ConfigJson, ReadsGptOss) {
  const auto read = [](std::string_view more) {
    return read_config_json(R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss",)"
                            R"("num_hidden_layers":4)" +
                            std::string(more) + "}");
  };
  const auto config = read(R"(,"quantization_config":{"quant_method":"mxfp4"})");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(rope_of(*config).scaling, RopeScaling::yarn);
  EXPECT_EQ(rope_of(*config).original_positions, 4096);
  EXPECT_FALSE(rope_of(*config).truncate);
  EXPECT_EQ(windows(*config), (std::vector<std::int64_t>{128, 0, 128, 0}));
  EXPECT_EQ(first<MixtureConfig>(*config).routing.num_experts, 128);
  EXPECT_EQ(first<MixtureConfig>(*config).routing.per_token, 4);
  for (const char* more : {R"(,"quantization_config":{"quant_method":"aqlm"})", R"(,"swiglu_limit":5.0)"})
    EXPECT_EQ(read(more).error().code(), StatusCode::unimplemented) << more;
}

TEST(ConfigJson, ReadsDeltaNets) {
  const char* kWrapped = R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
    "tie_word_embeddings": true, "text_config": {"model_type": "qwen3_5_text", "num_hidden_layers": 8,
    "attn_output_gate": true, "full_attention_interval": 4, "linear_num_value_heads": 48,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "mrope_section": [11, 11, 10],
                        "mrope_interleaved": true}}, "vision_config": {}})";
  const Result<ModelInfo> config = read_config_json(kWrapped);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->architecture, "qwen35");
  EXPECT_TRUE(config->decoder.tied_head);
  EXPECT_EQ(attention_of(*config).head_size, 256);
  EXPECT_EQ(rope_of(*config).rotary_size, 64);
  EXPECT_EQ(first<LinearAttentionConfig>(*config).num_heads, 48);
  EXPECT_EQ(recurrent(*config), (std::vector<bool>{true, true, true, false, true, true, true, false}));
  const std::vector<std::int64_t> pieces = layer_states(config->decoder).front().pieces;
  EXPECT_EQ(pieces.front(), 3 * (2 * 16 * 128 + 48 * 128));
  EXPECT_EQ(pieces.size(), 1u + 48);
  EXPECT_EQ(pieces.back(), 128 * 128);
  const auto refused = [](const char* field) {
    const Result<ModelInfo> other = read_config_json(
        concat(R"({"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", )", field, "}"));
    EXPECT_FALSE(other) << field;
    return other ? std::string() : std::string(other.error().message());
  };
  EXPECT_NE(refused(R"("attn_output_gate": false)").find("attn_output_gate"), std::string::npos);
  EXPECT_NE(refused(R"("full_attention_interval": 0)").find("full_attention_interval"), std::string::npos);
  EXPECT_NE(refused(R"("linear_conv_kernel_dim": 1)").find("a convolution over 1 tokens"), std::string::npos);
  EXPECT_NE(refused(R"("linear_num_value_heads": 2000000000)").find("heads with states"), std::string::npos);
  EXPECT_NE(refused(R"("num_hidden_layers": 2, "layer_types": ["linear_attention", "mamba"])").find("mamba"),
            std::string::npos);
}

// Python writes Infinity, which is not JSON; inside of a string it stays what it is.
TEST(ConfigJson, ReadsMamba2) {
  const char* kGranite =
      R"({"architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid",
    "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"], "time_step_limit": [0.5, Infinity],
    "mamba_n_heads": 64, "mamba_d_head": "auto", "note": "a \"quoted\" Infinity"})";
  const Result<ModelInfo> granite = read_config_json(kGranite);
  ASSERT_TRUE(granite) << granite.error().message();
  const auto& states = first<LinearAttentionConfig>(*granite);
  EXPECT_EQ(states.value_size, 128);
  EXPECT_EQ(states.least_step, 0.5f);
  EXPECT_TRUE(std::isinf(states.most_step));
  EXPECT_EQ(recurrent(*granite), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(rotating(*granite), std::vector<bool>(3, false));

  const char* kNemotron = R"({"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h",
    "hybrid_override_pattern": "M-M*E"})";
  const Result<ModelInfo> nemotron = read_config_json(kNemotron);
  ASSERT_TRUE(nemotron) << nemotron.error().message();
  const std::vector<bool> feed_forwards = testing::of_layers(
      *nemotron, [](const LayerConfig& layer) { return std::holds_alternative<NoMixerConfig>(layer.mixer); });
  EXPECT_EQ(feed_forwards, (std::vector<bool>{false, true, false, false, true}));
  EXPECT_EQ(with_mixture(*nemotron), (std::vector<bool>{false, false, false, false, true}));
  EXPECT_EQ(recurrent(*nemotron), (std::vector<bool>{true, false, true, false, false}));
  EXPECT_NE(nemotron->decoder.layers[3].attention(), nullptr);

  for (const char* field : {R"("hybrid_override_pattern": "MX")", R"("layers_block_type": "mamba")",
                            R"("layers_block_type": ["mamba", 3])", R"("mamba_hidden_act": "gelu")",
                            R"("moe_latent_size": 8)", R"("time_step_min": "small")"})
    EXPECT_FALSE(
        read_config_json(concat(R"({"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", )",
                                field, R"(, "layer_types": ["mamba"]})")))
        << field;
}

// As DeepSeek-V2-Lite is published: no rank of queries, a stretched rotation that also scales the products.
TEST(ConfigJson, ReadsLatentAttention) {
  const auto read = [](const std::string& more) {
    return read_config_json(R"({"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2",)"
                            R"("hidden_size":2048,"num_hidden_layers":27,"num_attention_heads":16,)"
                            R"("q_lora_rank":null,"first_k_dense_replace":1,"n_group":1,"topk_group":1,)"
                            R"("max_position_embeddings":163840,"rope_scaling":{"type":"yarn","factor":40,)"
                            R"("mscale":0.707,"mscale_all_dim":0.707,"beta_fast":32,"beta_slow":1,)"
                            R"("original_max_position_embeddings":4096})" +
                            more + "}");
  };
  const auto config = read("");
  ASSERT_TRUE(config) << config.error().message();
  const auto& latent = first<LatentAttentionConfig>(*config);
  EXPECT_EQ(latent.latent_size, 512);
  EXPECT_EQ(latent.query_rank, 0);
  EXPECT_EQ(latent.row_size(), 576);
  EXPECT_EQ(latent.query_size(), 192);
  EXPECT_EQ(rope_of(*config).rotary_size, 64);
  const double stretched = 0.1 * 0.707 * std::log(40.0) + 1;
  EXPECT_NEAR(latent.scale, stretched * stretched / std::sqrt(192.0), 1e-6);
  EXPECT_FLOAT_EQ(rope_of(*config).attention_factor, 1) << "the two scales are one";
  EXPECT_EQ(first<MixtureConfig>(*config).routing.score, RouterScore::softmax);
  EXPECT_FALSE(with_mixture(*config)[0]);
  EXPECT_TRUE(with_mixture(*config)[1]);
  for (const auto& [more, why] : {std::pair{R"(,"topk_method":"noaux_tc")", "'topk_method'"},
                                  {R"(,"norm_topk_prob":true)", "'norm_topk_prob'"},
                                  {R"(,"scoring_func":"sigmoid")", "'scoring_func'"},
                                  {R"(,"moe_layer_freq":2)", "'moe_layer_freq'"},
                                  {R"(,"kv_lora_rank":0)", "'kv_lora_rank'"},
                                  {R"(,"kv_lora_rank":2000000000)", "latent attention"},
                                  {R"(,"v_head_dim":-3)", "latent attention"},
                                  {R"(,"qk_nope_head_dim":2147483647)", "latent attention"},
                                  {R"(,"qk_rope_head_dim":63)", "63 rotated elements"}}) {
    const auto other = read(more);
    ASSERT_FALSE(other) << more;
    EXPECT_NE(other.error().message().find(why), std::string::npos) << other.error().message();
  }
}

TEST(ConfigJson, ReadsLlama4sChunks) {
  const auto read = [](std::string_view more) {
    return read_config_json(R"({"architectures":["Llama4ForCausalLM"],"model_type":"llama4_text",)"
                            R"("num_hidden_layers":8)" +
                            std::string(more) + "}");
  };
  const auto config = read("");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->decoder.max_positions, 131072);
  EXPECT_EQ(windows(*config), (std::vector<std::int64_t>{8192, 8192, 8192, 0, 8192, 8192, 8192, 0}));
  EXPECT_EQ(rotating(*config), (std::vector<bool>{true, true, true, false, true, true, true, false}));
  const auto other = read(R"(,"attention_chunk_size":null,"moe_layers":[1],"no_rope_layers":[])");
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(windows(*other).front(), 8192) << "null is absent";
  EXPECT_EQ(std::ranges::count(with_mixture(*other), true), 1);
}

// All of a part that a reader fills.
std::string text_of(const AttentionConfig& c) {
  return concat(c.num_heads, " heads ", c.num_kv_heads, " of ", c.head_size, c.causal, " window ",
                c.sliding_window, " ", c.chunks, " rope ", c.rope, " scale ", c.scale, " norm ",
                static_cast<int>(c.query_key_norm), c.norm_after_rope, c.value_norm, " gate ",
                static_cast<int>(c.output_gate), " cap ", c.softcap, " clip ", c.clip, " temperature ",
                c.temperature_beta, " ", c.temperature_offset, " ", c.temperature_positions, " kv ",
                c.key_is_value, " ", c.kv_layer, " slopes ", c.slopes.size(), " factors ", c.query_factor,
                " ", c.key_factor, " ", c.output_factor);
}
std::string text_of(const LatentAttentionConfig& c) {
  return concat("latent ", c.num_heads, " ", c.query_rank, " ", c.latent_size, " ", c.nope_size, " ",
                c.rope_size, " ", c.value_size, " ", c.scale);
}
std::string text_of(const ShortConvConfig& c) { return concat("conv ", c.num_taps); }
std::string text_of(const LinearAttentionConfig& c) {
  return concat("states ", c.delta_rule, c.num_heads, " ", c.num_key_heads, " ", c.key_size, " ",
                c.value_size, " ", c.num_taps, " ", c.least_step, " ", c.most_step, " ", c.norm_groups, " ",
                c.gate_first, " ", c.out_factor);
}
std::string text_of(const SelectiveScanConfig& c) {
  return concat("scan ", c.num_channels, " ", c.state_size, " ", c.step_rank, " ", c.num_taps, " ",
                static_cast<int>(c.norms), " ", c.norm_eps);
}
std::string text_of(const ParallelMixersConfig& c) { return text_of(c.attention) + text_of(c.linear); }
std::string text_of(const DenseFeedForwardConfig& c) {
  return concat("dense ", c.intermediate_size, " ", static_cast<int>(c.activation), c.gated, " ",
                c.gate_factor, " ", c.down_factor);
}
std::string text_of(const MixtureConfig& c) {
  const RoutingRule& r = c.routing;
  return concat("mixture ", text_of(c.expert), " shared ", c.shared_intermediate_size, " ", c.shared_scale,
                c.shared_gate, " of ", r.num_experts, " ", r.per_token, " ", static_cast<int>(r.score), " ",
                r.num_groups, " ", r.groups_used, r.renormalize, " ", r.scale, " ", r.near, c.weigh_input);
}
std::string text_of(const MixtureBesideDenseConfig& c) { return text_of(c.dense) + text_of(c.mixture); }
std::string text_of(const SparseFeedForwardConfig& c) {
  return concat("sparse ", c.intermediate_size, " ", c.deviations);
}
std::string text_of(const XieluConfig& c) { return concat("xielu ", c.intermediate_size, " ", c.alpha_p); }
std::string text_of(const NoMixerConfig&) { return "no mixer"; }
std::string text_of(const NoFeedForwardConfig&) { return "no feed-forward"; }

std::string all_of(const ModelInfo& model) {
  const DecoderConfig& d = model.decoder;
  std::string out = concat(
      model.architecture, " vocab ", d.vocab_size, " hidden ", d.hidden_size, " embedding ", d.embedding_size,
      " positions ", d.max_positions, " scales ", d.embedding_scale, " ", d.logit_scale, " ", d.logit_softcap,
      " tied ", d.tied_head, " final ", d.final_norm.has_value(), d.embedding_norm.has_value(),
      d.learned_positions, " ", d.position_offset, " ", d.token_types, " rows ", d.interleaved_rows,
      " inputs ", d.layer_input ? d.layer_input->size : 0, " streams ", d.streams ? d.streams->count : 0,
      " bos ", model.bos_token_id, " pad ", model.pad_token_id, " eos");
  for (const std::int32_t id : model.eos_token_ids) out += concat(" ", id);
  for (const RopeConfig& r : d.ropes)
    out += concat("\nrope ", r.theta, " ", r.rotary_size, " ", static_cast<int>(r.scaling), " ", r.factor,
                  " ", r.low_freq_factor, " ", r.high_freq_factor, " ", r.original_positions, " ",
                  r.beta_fast, " ", r.beta_slow, r.truncate, " ", r.turned, " ", r.attention_factor);
  for (const LayerConfig& layer : d.layers) {
    const auto text = [](const auto& part) { return text_of(part); };
    out += concat("\n", std::visit(text, layer.mixer), " ", std::visit(text, layer.feed_forward), " norm ",
                  static_cast<int>(layer.norm.kind), " ", layer.norm.eps, " ", layer.norm.weight_offset,
                  layer.norm.weighted, layer.mixer_norms.input, layer.mixer_norms.branch,
                  layer.mixer_norms.sum, " ", layer.branch_norm_eps, " ", layer.residual_scale,
                  layer.parallel, layer.output_scale, " ", layer.learned_residual);
  }
  return out;
}

// Absent fields are what transformers would have written. The fixture is made by make_config_defaults.py.
TEST(ConfigJson, DefaultsAreTransformers) {
  const json::value all = json::parse(testing::read_binary(testing::loader_fixture("config_defaults.json")));
  EXPECT_GT(all.as_object().size(), 45u);
  for (const auto& [name, written] : all.as_object()) {
    SCOPED_TRACE(std::string(name));
    const auto absent = read_config_json(json::serialize(json::object{{"model_type", name}}));
    json::object full = written.as_object();
    full["model_type"] = name;
    const auto given = read_config_json(json::serialize(full));
    if (!absent || !given) {  // some families' defaults are no model
      EXPECT_EQ(absent ? "" : absent.error().message(), given ? "" : given.error().message());
      continue;
    }
    EXPECT_EQ(all_of(*absent), all_of(*given));
    std::string unknown;
    for (const std::string& option : given->unknown_options) unknown += " " + option;
    EXPECT_EQ(unknown, "") << "transformers writes these";
  }
}

TEST(ConfigJson, ReadsTheSharedModels) {
  const std::string models = testing::shared_path("models");
  if (models.empty()) GTEST_SKIP() << "the shared test data is not on this machine";
  for (const char* name :
       {"stories260K", "tiny_gpt2", "tiny_gpt2_random", "tiny_llama", "tiny_mistral", "tiny_opt",
        "tiny_qwen2", "tiny_qwen3", "tiny_gemma3", "tiny_mixtral", "tiny_qwen2_moe", "tiny_qwen3_moe"}) {
    const Result<ModelInfo> config =
        read_config_json(testing::read_binary(models + "/" + name + "/config.json"));
    EXPECT_TRUE(config) << name << ": " << config.error().message();
  }
}

}  // namespace
}  // namespace pagoda
