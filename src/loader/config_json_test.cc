#include "loader/config_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "loader/json_overrides.h"
#include "loader/test_files.h"

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
    const Result<ModelConfig> config = parse_config_json(config_text);
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
      parse_config_json(R"({"model_type":"llama","eos_token_id":2})", R"({"eos_token_id":[5,2,7]})");
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

TEST(ConfigJson, RefusesByName) {
  const auto refused = [](std::string_view fields, std::string_view why) {
    const std::string text = R"({"model_type":"llama")" + std::string(fields) + "}";
    const Result<ModelConfig> config = parse_config_json(text);
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().message().find(why), std::string::npos)
        << text << " gives: " << config.error().message();
  };
  refused(R"(,"architectures":["MambaForCausalLM"])",
          "architecture 'MambaForCausalLM' is not supported; supported: LlamaForCausalLM, ");
  refused(R"(,"architectures":["Qwen2ForCausalLM"])", "'model_type' says 'llama'");
  refused(R"(,"rope_scaling":{"rope_type":"yarrow","factor":4})",
          "type 'yarrow' is not supported; supported: default, linear");
  refused(R"(,"rope_scaling":{"rope_type":"linear"})", "'rope_scaling.factor' must be given");
  refused(R"(,"rope_scaling":"linear")", "'rope_scaling' must be an object");
  refused(R"(,"rope_parameters":{"full_attention":{"rope_theta":1}})", "for 'full_attention' layers");
  refused(R"(,"partial_rotary_factor":0.5)", "'partial_rotary_factor' = 0.5 is not supported");
  refused(R"(,"hidden_act":"quick_gelu")", "activation 'quick_gelu' is not supported; supported: silu");
  refused(R"(,"quantization_config":{"quant_method":"gptq"})", "'quantization_config' is not supported");
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
    EXPECT_FALSE(parse_config_json(text)) << text;
  }
  EXPECT_FALSE(parse_config_json(R"({"model_type":"gpt2","scale_attn_weights":false})"));
  EXPECT_FALSE(parse_config_json(R"({"model_type":"gpt2","scale_attn_by_inverse_layer_idx":true})"));
  EXPECT_FALSE(parse_config_json(R"({"model_type":"opt","layer_norm_elementwise_affine":false})"));
  EXPECT_FALSE(parse_config_json(
      R"({"model_type":"qwen3","num_hidden_layers":2,"use_sliding_window":true,"layer_types":["chunked_attention","full_attention"]})"));
  EXPECT_FALSE(parse_config_json(
      R"({"model_type":"qwen3","num_hidden_layers":2,"use_sliding_window":true,"layer_types":["full_attention"]})"));
  EXPECT_FALSE(parse_config_json(std::string(100'000, '[')));
}

TEST(ConfigJson, ReadsGptOss) {
  const auto read = [](std::string_view more) {
    return parse_config_json(R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss",)"
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
  for (const char* more : {R"(,"quantization_config":{"quant_method":"gptq"})", R"(,"swiglu_limit":5.0)"})
    EXPECT_EQ(read(more).error().code(), StatusCode::unimplemented) << more;
}

// As DeepSeek-V2-Lite is published: no rank of queries, a stretched rotation that also scales the products.
TEST(ConfigJson, ReadsLatentAttention) {
  const auto read = [](const std::string& more) {
    return parse_config_json(R"({"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2",)"
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

TEST(ConfigJson, EndsLlama4sContextsWithItsChunks) {
  const auto read = [](std::string_view more) {
    return parse_config_json(R"({"architectures":["Llama4ForCausalLM"],"model_type":"llama4_text",)"
                             R"("num_hidden_layers":8)" +
                             std::string(more) + "}");
  };
  const auto config = read("");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->max_positions, 8192);
  EXPECT_EQ(config->rope_layers, (std::vector<bool>{true, true, true, false, true, true, true, false}));
  const auto other = read(R"(,"attention_chunk_size":null,"moe_layers":[1],"no_rope_layers":[])");
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(other->max_positions, 8192) << "null is absent";
  EXPECT_EQ(std::count(other->experts.layers.begin(), other->experts.layers.end(), true), 1);
}

TEST(ConfigJson, ReadsTheSharedModels) {
  const std::string models = testing::shared_data("models");
  if (models.empty()) GTEST_SKIP() << "the shared test data is not on this machine";
  for (const char* name :
       {"stories260K", "tiny_gpt2", "tiny_gpt2_random", "tiny_llama", "tiny_mistral", "tiny_opt",
        "tiny_qwen2", "tiny_qwen3", "tiny_gemma3", "tiny_mixtral", "tiny_qwen2_moe", "tiny_qwen3_moe"}) {
    const Result<ModelConfig> config =
        parse_config_json(testing::read_binary(models + "/" + name + "/config.json"));
    EXPECT_TRUE(config) << name << ": " << config.error().message();
  }
}

}  // namespace
}  // namespace pagoda
