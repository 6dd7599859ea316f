#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/strings.h"
#include "loader/json_overrides.h"
#include "loader/test_files.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// The window of each layer, 0 for none, as ModelConfig describes it.
std::vector<std::int64_t> windows(const ModelConfig& config) {
  std::vector<std::int64_t> out;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    out.push_back(config.has_window(layer) ? config.sliding_window : 0);
  }
  return out;
}

// Goal: absent and null fields get the values that transformers gives them. Method: each case's
// expectation was written by transformers itself (tests/fixtures/make_models.py).
TEST(ConfigJson, AgreesWithTransformers) {
  const std::string text = testing::read_binary(testing::fixture("config_cases.json"));
  ASSERT_FALSE(text.empty());
  const json::value cases = json::parse(text);
  EXPECT_GT(cases.as_array().size(), 30u);
  for (const json::value& each : cases.as_array()) {
    const std::string config_text = json::serialize(each.at("config"));
    SCOPED_TRACE(config_text);
    const Result<ModelConfig> config = read_config_json(config_text);
    ASSERT_TRUE(config) << config.error().message();
    const json::object& expected = each.at("expected").as_object();
    const auto integer = [&](const char* name) { return expected.at(name).to_number<std::int64_t>(); };
    EXPECT_EQ(config->vocab_size, integer("vocab_size"));
    EXPECT_EQ(config->hidden_size, integer("hidden_size"));
    EXPECT_EQ(config->num_layers, integer("num_layers"));
    EXPECT_EQ(config->num_heads, integer("num_heads"));
    EXPECT_EQ(config->num_kv_heads, integer("num_kv_heads"));
    EXPECT_EQ(config->head_size, integer("head_size"));
    EXPECT_EQ(config->intermediate_size, integer("intermediate_size"));
    EXPECT_EQ(config->max_positions, integer("max_positions"));
    EXPECT_EQ(config->tie_embeddings, expected.at("tie_embeddings").as_bool());
    EXPECT_FLOAT_EQ(config->norm_eps, static_cast<float>(expected.at("norm_eps").to_number<double>()));
    EXPECT_EQ(config->activation, *normalize_activation(std::string(expected.at("activation").as_string())));
    EXPECT_EQ(windows(*config), json::value_to<std::vector<std::int64_t>>(expected.at("windows")));
    std::vector<std::int32_t> eos = json::value_to<std::vector<std::int32_t>>(expected.at("eos"));
    std::erase_if(eos, [&](std::int32_t id) { return id >= config->vocab_size; });
    EXPECT_EQ(config->eos_token_ids, eos);
    EXPECT_EQ(config->bos_token_id, integer("bos") < config->vocab_size ? integer("bos") : -1);
    if (expected.contains("rope_type")) {
      const json::string& type = expected.at("rope_type").as_string();
      EXPECT_EQ(config->rope_scaling, type == "llama3"   ? RopeScaling::llama3
                                      : type == "linear" ? RopeScaling::linear
                                                         : RopeScaling::none);
      EXPECT_FLOAT_EQ(config->rope_theta, static_cast<float>(expected.at("rope_theta").to_number<double>()));
      if (expected.contains("rope_local_theta")) {
        EXPECT_FLOAT_EQ(config->rope_local_theta,
                        static_cast<float>(expected.at("rope_local_theta").to_number<double>()));
        EXPECT_FLOAT_EQ(config->attention_scale,
                        static_cast<float>(expected.at("attention_scale").to_number<double>()));
      }
      EXPECT_FLOAT_EQ(config->rope_factor,
                      static_cast<float>(expected.at("rope_factor").to_number<double>()));
      EXPECT_EQ(config->rope_original_positions, integer("rope_original_positions"));
      EXPECT_EQ(config->rotary_size,
                expected.contains("rotary_size") ? integer("rotary_size") : config->head_size);
      for (const auto& [name, value] : {std::pair("attention_softcap", config->attention_softcap),
                                        std::pair("logit_softcap", config->logit_softcap),
                                        std::pair("logit_scale", config->logit_scale)}) {
        if (expected.contains(name))
          EXPECT_FLOAT_EQ(value, static_cast<float>(expected.at(name).to_number<double>())) << name;
      }
    }
    if (expected.contains("experts")) {
      const ExpertsConfig& experts = config->experts;
      EXPECT_EQ(experts.count, integer("experts"));
      EXPECT_EQ(experts.per_token, integer("experts_per_token"));
      EXPECT_EQ(experts.intermediate_size, integer("expert_size"));
      EXPECT_EQ(experts.shared_intermediate_size, integer("shared_expert_size"));
      EXPECT_EQ(experts.renormalize, expected.at("renormalize").as_bool());
      std::vector<std::int64_t> layers;
      for (std::int32_t layer = 0; layer < config->num_layers; ++layer)
        layers.push_back(experts.in_layer(layer));
      EXPECT_EQ(layers, json::value_to<std::vector<std::int64_t>>(expected.at("mixtures")));
    } else {
      EXPECT_EQ(config->experts.count, 0);
    }
    if (expected.contains("embedding_size")) {
      EXPECT_EQ(config->embedding_size, integer("embedding_size"));
      EXPECT_EQ(config->norm_before, expected.at("norm_before").as_bool());
      EXPECT_EQ(config->final_norm, expected.at("final_norm").as_bool());
    } else {
      EXPECT_EQ(config->embedding_size, config->hidden_size);
    }
  }
}

TEST(ConfigJson, MergesGenerationConfig) {
  const Result<ModelConfig> config =
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
    return config ? *config : ModelConfig{};
  };
  for (const char* more :
       {R"(,"rope_theta":5e5)", R"(,"rope_theta":5e5,"rope_scaling":null)",
        R"(,"rope_theta":5e5,"rope_scaling":{"type":"linear","rope_type":"linear","factor":2.0})",
        R"(,"rope_parameters":{"rope_theta":5e5,"rope_type":"default"})"}) {
    const ModelConfig config = read(more);
    EXPECT_EQ(config.rope_scaling, RopeScaling::yarn) << more;
    EXPECT_FLOAT_EQ(config.rope_theta, 5e5f) << more;
    EXPECT_FLOAT_EQ(config.rope_factor, 4) << more;
    EXPECT_EQ(config.max_positions, 2048) << more;
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
    return config ? *config : ModelConfig{};
  };
  const std::string yarn =
      R"(,"rope_parameters":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":512})";
  EXPECT_EQ(read(yarn, R"({"factor":8.0})").rope_scaling, RopeScaling::yarn);
  EXPECT_FLOAT_EQ(read(yarn, R"({"factor":8.0})").rope_factor, 8);
  EXPECT_EQ(read("", R"({"factor":8.0})").rope_scaling, RopeScaling::linear);
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
    EXPECT_FLOAT_EQ(config->rope_theta, 300) << changed;
    EXPECT_EQ(config->rope_scaling, RopeScaling::none);
  }
  EXPECT_EQ(rope_theta_of(R"({"text_config":{"rope_theta":7}})"), R"({"rope_theta":7})");
  EXPECT_EQ(rope_theta_of(R"({"rope_theta":7,"rope_parameters":{"rope_theta":8}})"), "");
  EXPECT_EQ(*with_rope(R"({"rope_theta":1})", R"({"rope_theta":300})"), R"({"rope_theta":300})");
}

TEST(ConfigJson, RefusesByName) {
  const auto refused = [](std::string_view fields, std::string_view why) {
    const std::string text = R"({"model_type":"llama")" + std::string(fields) + "}";
    const Result<ModelConfig> config = read_config_json(text);
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().message().find(why), std::string::npos)
        << text << " gives: " << config.error().message();
  };
  refused(R"(,"architectures":["MambaForCausalLM"])",
          "architecture 'MambaForCausalLM' is not supported; docs/models.md lists all that are");
  refused(R"(,"architectures":["Qwen2ForCausalLM"])", "'model_type' says 'llama'");
  refused(R"(,"rope_scaling":{"rope_type":"yarrow","factor":4})",
          "type 'yarrow' is not supported; supported: default, linear");
  refused(R"(,"rope_scaling":{"rope_type":"linear"})", "'rope_scaling.factor' must be given");
  refused(R"(,"rope_scaling":"linear")", "'rope_scaling' must be an object");
  refused(R"(,"rope_parameters":{"full_attention":{"rope_theta":1}})", "for 'full_attention' layers");
  refused(R"(,"partial_rotary_factor":0.5)", "'partial_rotary_factor' = 0.5 is not supported");
  refused(R"(,"hidden_act":"quick_gelu")", "activation 'quick_gelu' is not supported; supported: silu");
  refused(R"(,"quantization_config":{"quant_method":"gptq","bits":3})",
          "quantised by GPTQ in 3 bits are not supported");
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
  EXPECT_EQ(config->rope_scaling, RopeScaling::yarn);
  EXPECT_EQ(config->rope_original_positions, 4096);
  EXPECT_FALSE(config->rope_truncate);
  EXPECT_EQ(windows(*config), (std::vector<std::int64_t>{128, 0, 128, 0}));
  EXPECT_EQ(config->experts.count, 128);
  EXPECT_EQ(config->experts.per_token, 4);
  for (const char* more : {R"(,"quantization_config":{"quant_method":"aqlm"})", R"(,"swiglu_limit":5.0)"})
    EXPECT_EQ(read(more).error().code(), StatusCode::unimplemented) << more;
}

TEST(ConfigJson, ReadsDeltaNets) {
  const char* kWrapped = R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
    "tie_word_embeddings": true, "text_config": {"model_type": "qwen3_5_text", "num_hidden_layers": 8,
    "attn_output_gate": true, "full_attention_interval": 4, "linear_num_value_heads": 48,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "mrope_section": [11, 11, 10],
                        "mrope_interleaved": true}}, "vision_config": {}})";
  const Result<ModelConfig> config = read_config_json(kWrapped);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->architecture, "qwen35");
  EXPECT_TRUE(config->tie_embeddings);
  EXPECT_EQ(config->head_size, 256);
  EXPECT_EQ(config->rotary_size, 64);
  EXPECT_EQ(config->state.num_heads, 48);
  EXPECT_EQ(config->num_recurrent(), 6);
  EXPECT_TRUE(config->keeps_kv(3));
  EXPECT_FALSE(config->keeps_kv(4));
  EXPECT_EQ(config->state_size, 48 * 128 * 128 + 3 * (2 * 16 * 128 + 48 * 128));
  const auto refused = [](const char* field) {
    const Result<ModelConfig> other = read_config_json(
        concat(R"({"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", )", field, "}"));
    EXPECT_FALSE(other) << field;
    return other ? std::string() : std::string(other.error().message());
  };
  EXPECT_NE(refused(R"("attn_output_gate": false)").find("attn_output_gate"), std::string::npos);
  EXPECT_NE(refused(R"("full_attention_interval": 0)").find("full_attention_interval"), std::string::npos);
  EXPECT_NE(refused(R"("linear_conv_kernel_dim": 1)").find("convolutions"), std::string::npos);
  EXPECT_NE(refused(R"("linear_num_value_heads": 2000000000)").find("plausible"), std::string::npos);
  EXPECT_NE(refused(R"("num_hidden_layers": 2, "layer_types": ["linear_attention", "mamba"])").find("mamba"),
            std::string::npos);
}

// Python writes Infinity, which is not JSON; inside of a string it stays what it is.
TEST(ConfigJson, ReadsMamba2) {
  const char* kGranite =
      R"({"architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid",
    "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"], "time_step_limit": [0.5, Infinity],
    "mamba_n_heads": 64, "mamba_d_head": "auto", "note": "a \"quoted\" Infinity"})";
  const Result<ModelConfig> granite = read_config_json(kGranite);
  ASSERT_TRUE(granite) << granite.error().message();
  EXPECT_EQ(granite->state.value_size, 128);
  EXPECT_EQ(granite->state.least_step, 0.5f);
  EXPECT_TRUE(std::isinf(granite->state.most_step));
  EXPECT_EQ(granite->recurrent_layers, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(granite->rope_layers, std::vector<bool>(3, false));

  const char* kNemotron = R"({"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h",
    "hybrid_override_pattern": "M-M*E"})";
  const Result<ModelConfig> nemotron = read_config_json(kNemotron);
  ASSERT_TRUE(nemotron) << nemotron.error().message();
  EXPECT_EQ(nemotron->num_layers, 5);
  EXPECT_EQ(nemotron->feed_forward_layers, (std::vector<bool>{false, true, false, false, true}));
  EXPECT_EQ(nemotron->experts.layers, (std::vector<bool>{false, false, false, false, true}));
  EXPECT_EQ(nemotron->num_recurrent(), 2);
  EXPECT_TRUE(nemotron->keeps_kv(3));
  EXPECT_FALSE(nemotron->keeps_kv(1));

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
  EXPECT_EQ(config->latent.rank, 512);
  EXPECT_EQ(config->latent.query_rank, 0);
  EXPECT_EQ(config->latent.row_size(), 576);
  EXPECT_EQ(config->head_size, 192);
  EXPECT_EQ(config->rotary_size, 64);
  const double stretched = 0.1 * 0.707 * std::log(40.0) + 1;
  EXPECT_NEAR(config->attention_scale, stretched * stretched / std::sqrt(192.0), 1e-6);
  EXPECT_FLOAT_EQ(config->rope_attention_factor, 1) << "the two scales are one";
  EXPECT_EQ(config->experts.score, ExpertScore::softmax);
  EXPECT_FALSE(config->experts.in_layer(0));
  EXPECT_TRUE(config->experts.in_layer(1));
  for (const auto& [more, why] : {std::pair{R"(,"topk_method":"noaux_tc")", "'topk_method'"},
                                  {R"(,"norm_topk_prob":true)", "'norm_topk_prob'"},
                                  {R"(,"scoring_func":"sigmoid")", "'scoring_func'"},
                                  {R"(,"moe_layer_freq":2)", "'moe_layer_freq'"},
                                  {R"(,"kv_lora_rank":0)", "'kv_lora_rank'"},
                                  {R"(,"kv_lora_rank":2000000000)", "latent attention"},
                                  {R"(,"v_head_dim":-3)", "latent attention"},
                                  {R"(,"qk_nope_head_dim":2147483647)", "head size"},
                                  {R"(,"qk_rope_head_dim":63)", "rotary dimension"}}) {
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
  EXPECT_EQ(config->max_positions, 131072);
  EXPECT_EQ(config->sliding_window, 8192);
  EXPECT_EQ(config->window_layers, config->rope_layers);
  EXPECT_EQ(config->rope_layers, (std::vector<bool>{true, true, true, false, true, true, true, false}));
  const auto other = read(R"(,"attention_chunk_size":null,"moe_layers":[1],"no_rope_layers":[])");
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(other->sliding_window, 8192) << "null is absent";
  EXPECT_EQ(std::count(other->experts.layers.begin(), other->experts.layers.end(), true), 1);
}

// All of a config that a reader fills.
std::string all_of(const ModelConfig& c) {
  std::string out =
      concat(c.architecture, " vocab ", c.vocab_size, " hidden ", c.hidden_size, " layers ", c.num_layers,
             " heads ", c.num_heads, " ", c.num_kv_heads, " of ", c.head_size, " inner ", c.intermediate_size,
             " positions ", c.max_positions, " embedding ", c.embedding_size, " eps ", c.norm_eps, " ",
             c.branch_norm_eps, " ", c.activation, " tied ", c.tie_embeddings, " norms ", c.norm_before,
             c.final_norm, " window ", c.sliding_window);
  out += concat(" rope ", c.rope_theta, " ", c.rotary_size, " ", c.rope_interleaved_rows, " ",
                static_cast<int>(c.rope_scaling), " ", c.rope_factor, " ", c.rope_low_freq_factor, " ",
                c.rope_high_freq_factor, " ", c.rope_original_positions, " ", c.rope_beta_fast, " ",
                c.rope_beta_slow, " ", c.rope_truncate, " ", c.rope_attention_factor, " ", c.rotary_dims, " ",
                c.rope_local_theta, " ", c.rope_local_rotary_size);
  out += concat(" offset ", c.norm_weight_offset, " caps ", c.attention_softcap, " ", c.logit_softcap,
                " temperature ", c.temperature_beta, " ", c.temperature_positions, " parallel ", c.parallel,
                " alibi ", c.alibi_max, " scales ", c.attention_scale, " ", c.embedding_scale, " ",
                c.residual_scale, " ", c.logit_scale, " encoder ", c.encoder, " types ", c.token_types, " ",
                c.position_offset, " qk ", c.query_key_norm, " shared ", c.shared_kv_layers, " ",
                c.keys_are_values, " ", c.layer_input_size, " gates ", c.head_gates, " clip ",
                c.attention_clip, " near ", c.experts.near, " streams ", c.num_streams, " ", c.scaled_streams,
                " ", c.learned_residual, " ", c.layer_input_rows);
  for (const float cutoff : c.sparse_cutoffs) out += concat(" ", cutoff);
  const StateHeads& s = c.state;
  out += concat(" latent ", c.latent.rank, " ", c.latent.query_rank, " ", c.latent.nope_size, " ",
                c.latent.rope_size, " ", c.latent.value_size, " state ", c.conv_taps, " ", s.num_heads, " ",
                s.num_key_heads, " ", s.key_size, " ", s.value_size, " ", s.tiled_heads, " ", s.least_step,
                " ", s.most_step, " ", s.norm_groups, " ", s.gate_first, " ", s.out_factor, " ", c.state_size,
                " ", c.state_beside_kv, " factors ", c.factors.query, " ", c.factors.key, " ",
                c.factors.attention_output, " ", c.factors.gate, " ", c.factors.down);
  const ExpertsConfig& e = c.experts;
  out += concat(" experts ", e.count, " ", e.per_token, " ", e.intermediate_size, " ",
                e.shared_intermediate_size, " ", e.shared_gate, " ", static_cast<int>(e.score), " ",
                e.renormalize, " ", e.scale, " ", e.groups, " ", e.groups_used, " bos ", c.bos_token_id,
                " pad ", c.pad_token_id, " eos");
  for (const std::int32_t id : c.eos_token_ids) out += concat(" ", id);
  for (const std::vector<bool>* layers :
       {&c.window_layers, &c.rope_layers, &e.layers, &c.recurrent_layers, &c.feed_forward_layers}) {
    out += " | ";
    for (const bool each : *layers) out += each ? "1" : "0";
  }
  for (const LayerSizes& layer : c.layer_sizes)
    out += concat(" ", layer.num_kv_heads, "x", layer.head_size, "+", layer.intermediate_size, " of ",
                  layer.num_heads);
  return out;
}

// Absent fields are what transformers would have written. The fixture is made by make_config_defaults.py.
TEST(ConfigJson, DefaultsAreTransformers) {
  const json::value all = json::parse(testing::read_binary(testing::fixture("config_defaults.json")));
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
  const std::string models = testing::shared_data("models");
  if (models.empty()) GTEST_SKIP() << "the shared test data is not on this machine";
  for (const char* name :
       {"stories260K", "tiny_gpt2", "tiny_gpt2_random", "tiny_llama", "tiny_mistral", "tiny_opt",
        "tiny_qwen2", "tiny_qwen3", "tiny_gemma3", "tiny_mixtral", "tiny_qwen2_moe", "tiny_qwen3_moe"}) {
    const Result<ModelConfig> config =
        read_config_json(testing::read_binary(models + "/" + name + "/config.json"));
    EXPECT_TRUE(config) << name << ": " << config.error().message();
  }
}

}  // namespace
}  // namespace pagoda
