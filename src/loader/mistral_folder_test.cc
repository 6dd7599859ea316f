#include "loader/mistral_folder.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstring>
#include <filesystem>

#include "loader/model_source.h"
#include "loader/test_files.h"

namespace pagoda {
namespace {

using testing::ScratchFolder;

constexpr const char* kParams =
    R"({"dim":8,"n_layers":4,"head_dim":4,"hidden_dim":16,"n_heads":2,"n_kv_heads":1,"norm_eps":1e-5,"vocab_size":32)";

std::string config_of(std::string_view more) {
  const auto config = config_of_mistral_params(std::string(kParams) + std::string(more) + "}");
  return config ? *config : config.error().message();
}

// The value of a field of the config.json, as JSON.
std::string field_of(std::string_view more, std::string_view name) {
  const boost::json::value config = boost::json::parse(config_of(more));
  const boost::json::value* const value = config.as_object().if_contains(name);
  return value == nullptr ? "none" : boost::json::serialize(*value);
}

TEST(MistralFolder, FieldsHaveHuggingFacesNames) {
  EXPECT_EQ(field_of("", "model_type"), R"("mistral")");
  EXPECT_EQ(field_of("", "hidden_size"), "8");
  EXPECT_EQ(field_of("", "num_key_value_heads"), "1");
  EXPECT_EQ(field_of("", "sliding_window"), "null");
  EXPECT_EQ(field_of("", "max_position_embeddings"), "128000");
  EXPECT_EQ(field_of(R"(,"max_position_embeddings":294912,"max_seq_len":262144)", "max_position_embeddings"),
            "262144");
  EXPECT_EQ(field_of("", "rope_theta"), "1E6");
  EXPECT_EQ(field_of(R"(,"sliding_window":4096)", "rope_theta"), "1E4");
  EXPECT_EQ(field_of(R"(,"tied_embeddings":true)", "tie_word_embeddings"), "true");
  EXPECT_EQ(field_of(R"(,"new_field":3)", "new_field"), "3");
  EXPECT_EQ(field_of(R"(,"sliding_window":[null,7])", "layer_types"),
            R"(["full_attention","sliding_attention","full_attention","sliding_attention"])");
  EXPECT_EQ(field_of(R"(,"rope_theta":1e6,"yarn":{"factor":16,"beta":32,"alpha":1,"apply_scale":false,)"
                     R"("original_max_position_embeddings":16384})",
                     "rope_parameters"),
            R"({"rope_type":"yarn","rope_theta":1E6,"factor":16,"original_max_position_embeddings":16384,)"
            R"("beta_fast":32,"beta_slow":1,"attention_factor":1E0})");
  EXPECT_EQ(field_of(R"(,"quantization":{"qformat_weight":"fp8_e4m3","qscheme_act":"TENSOR"})",
                     "quantization_config"),
            R"({"quant_method":"fp8","activation_scheme":"static"})");
}

TEST(MistralFolder, OtherPartsAreRefusedByName) {
  for (const auto& [more, expected] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(,"kv_lora_rank":512)", "params.json: 'kv_lora_rank' is not supported in Mistral's own form"},
           {R"(,"model_type":"mamba")", "'model_type \"mamba\"'"},
           {R"(,"moe":{"num_experts":2,"num_shared_experts":1})", "'moe.num_shared_experts'"},
           {R"(,"moe":[])", "'moe' must be an object"},
           {R"(,"llama_4_scaling":{"beta":1})", "'llama_4_scaling without yarn'"},
           {R"(,"yarn":{"original_max_position_embeddings":4},"llama_4_scaling":{"beta":1})",
            "'llama_4_scaling from another position than yarn'"},
           {R"(,"sliding_window":[7,8])", "'sliding_window of several sizes'"},
           {R"(,"sliding_window":[7,null,null])", "'sliding_window' must be a list that repeats"},
           {R"(,"quantization":{"qformat_weight":"int8"})", "'quantization.qformat_weight'"},
           {R"(,"ada_rms_norm_t_cond":true)", "'ada_rms_norm_t_cond'"},
           {R"(,"hidden_dim":null)", "'hidden_dim' must be given"}})
    EXPECT_NE(config_of(more).find(expected), std::string::npos) << config_of(more);
}

TEST(MistralFolder, TensorsHaveHuggingFacesNames) {
  for (const auto& [name, expected] : std::initializer_list<std::pair<const char*, const char*>>{
           {"tok_embeddings.weight", "model.embed_tokens.weight"},
           {"mm_whisper_embeddings.tok_embeddings.weight", "model.embed_tokens.weight"},
           {"output.weight", "lm_head.weight"},
           {"norm.weight", "model.norm.weight"},
           {"layers.31.attention.wo.weight", "model.layers.31.self_attn.o_proj.weight"},
           {"layers.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
           {"layers.3.feed_forward.w2.qscale_act", "model.layers.3.mlp.down_proj.input_scale"},
           {"layers.3.feed_forward.experts.7.w1.qscale_weight",
            "model.layers.3.block_sparse_moe.experts.7.w1.weight_scale"},
           {"layers.3.feed_forward.gate.weight", "model.layers.3.block_sparse_moe.gate.weight"},
           {"layers.3.attention.k_fake_quantizer.qscale_act", "model.layers.3.self_attn.k_scale"},
           {"vision_encoder.transformer.layers.0.attention.wq.weight",
            "vision_encoder.transformer.layers.0.attention.wq.weight"},
           {"layers.0.unknown", "layers.0.unknown"}})
    EXPECT_EQ(hugging_face_name(name), expected);
}

// Rows 0 to 7 of two heads of four hold the numbers of the rows that they stand at.
void write_rows(const ScratchFolder& scratch, const char* dtype, std::string_view data) {
  const std::string end = std::to_string(data.size());
  scratch.write("consolidated.safetensors",
                testing::safetensors(R"({"layers.0.attention.wq.weight":{"dtype":")" + std::string(dtype) +
                                         R"(","shape":[8,1],"data_offsets":[0,)" + end + "]}}",
                                     std::string(data)));
}

std::vector<float> rows_of(const std::string& path) {
  const auto source = ModelSource::open(path);
  if (!source) {
    ADD_FAILURE() << source.error().message();
    return {};
  }
  const TensorView* const query = (*source)->find("model.layers.0.self_attn.q_proj.weight");
  if (query == nullptr || !(*source)->bring_in(*query).ok()) return {};
  std::vector<float> values(8);
  std::memcpy(values.data(), query->data, sizeof(float) * values.size());  // aligned as the file has it
  return values;
}

TEST(MistralFolder, RowsOfQueriesAndKeysAreThoseOfHalves) {
  const ScratchFolder scratch;
  scratch.write("params.json", std::string(kParams) + "}");
  const float rows[] = {0, 1, 2, 3, 4, 5, 6, 7};
  write_rows(scratch, "F32", {reinterpret_cast<const char*>(rows), sizeof rows});
  const std::vector<float> expected = {0, 2, 1, 3, 4, 6, 5, 7};
  EXPECT_EQ(rows_of(scratch.path()), expected);
  EXPECT_EQ(rows_of(scratch.path() + "/consolidated.safetensors"), expected);
  scratch.write("params.json", std::string(kParams) + R"(,"head_dim":3})");
  const auto odd = ModelSource::open(scratch.path());
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().message().find("has no heads of 3 rows"), std::string::npos);
}

TEST(MistralFolder, RowsOfEightBitFloatsLikewise) {
  const ScratchFolder scratch;
  scratch.write(
      "params.json",
      std::string(kParams) + R"(,"quantization":{"qformat_weight":"fp8_e4m3","qscheme_act":"TENSOR"}})");
  const unsigned char numbers[] = {0x00, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e};  // 0 1 2 3 4 5 6 7
  std::string data(reinterpret_cast<const char*>(numbers), sizeof numbers);
  const float scales[] = {0.5f, 1.0f};
  data.append(reinterpret_cast<const char*>(scales), sizeof scales);
  scratch.write(
      "consolidated.safetensors",
      testing::safetensors(
          R"({"layers.0.attention.wq.weight":{"dtype":"F8_E4M3","shape":[8,1],"data_offsets":[0,8]},)"
          R"("layers.0.attention.wq.qscale_weight":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
          R"("layers.0.attention.wq.qscale_act":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})",
          data));
  EXPECT_EQ(rows_of(scratch.path()), (std::vector<float>{0, 1, 0.5f, 1.5f, 2, 3, 2.5f, 3.5f}));
}

TEST(MistralFolder, HuggingFacesFormGoesFirst) {
  const ScratchFolder scratch;
  const float rows[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::string_view data(reinterpret_cast<const char*>(rows), sizeof rows);
  scratch.write("params.json", std::string(kParams) + "}");
  write_rows(scratch, "F32", data);
  scratch.write("config.json", R"({"model_type":"mistral"})");
  EXPECT_EQ(rows_of(scratch.path())[1], 2);  // config.json alone has no weights
  scratch.write(
      "model.safetensors",
      testing::safetensors(
          R"({"model.layers.0.self_attn.q_proj.weight":{"dtype":"F32","shape":[8,1],"data_offsets":[0,32]}})",
          std::string(data)));
  EXPECT_EQ(rows_of(scratch.path())[1], 1);
}

}  // namespace
}  // namespace pagoda
