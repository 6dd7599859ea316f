// Goal: a folder in Mistral's own form computes what the Hugging Face folder of the same model computes. The
// fixtures of families are written in that form: other names, other fields, and the rows of queries and keys
// in the order that llama.cpp's converter gives to GGUF files, too.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"
#include "models/read_config.h"

namespace pagoda::testing {
namespace {

namespace json = boost::json;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
  return text;
}

// "layers.0.attention.wq.weight" of "model.layers.0.self_attn.q_proj.weight".
std::string mistral_name(std::string name) {
  for (const auto& [from, to] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"lm_head", "output"},
           {"model.embed_tokens", "tok_embeddings"},
           {"model.norm", "norm"},
           {"model.", ""},
           {"self_attn.q_proj", "attention.wq"},
           {"self_attn.k_proj", "attention.wk"},
           {"self_attn.v_proj", "attention.wv"},
           {"self_attn.o_proj", "attention.wo"},
           {"input_layernorm", "attention_norm"},
           {"post_attention_layernorm", "ffn_norm"},
           {"block_sparse_moe", "feed_forward"},
           {"mlp.gate_proj", "feed_forward.w1"},
           {"mlp.down_proj", "feed_forward.w2"},
           {"mlp.up_proj", "feed_forward.w3"}})
    name = replaced(std::move(name), from, to);
  return name;
}

json::object params_json(const json::object& config) {
  const auto& rope = config.at("rope_parameters").as_object();
  return {{"dim", config.at("hidden_size")},
          {"n_layers", config.at("num_hidden_layers")},
          {"n_heads", config.at("num_attention_heads")},
          {"n_kv_heads", config.at("num_key_value_heads")},
          {"head_dim", config.at("head_dim")},
          {"hidden_dim", config.at("intermediate_size")},
          {"norm_eps", config.at("rms_norm_eps")},
          {"vocab_size", config.at("vocab_size")},
          {"max_position_embeddings", config.at("max_position_embeddings")},
          {"tied_embeddings", false},
          {"model_type", "transformer"},
          {"rope_theta", rope.at("rope_theta")},
          {"sliding_window", config.at("sliding_window")}};
}

class MistralFolder : public ::testing::Test {
 protected:
  MistralFolder() : folder_(::testing::TempDir() + "mistral_folder_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~MistralFolder() override { std::filesystem::remove_all(folder_); }

  void write(const json::object& family, const json::object& params) {
    std::ofstream(folder_ + "/params.json") << params;
    std::vector<FamilyTensor> tensors = family_tensors(family);
    const json::object& config = family.at("config").as_object();
    for (FamilyTensor& tensor : tensors) {
      for (const auto& [end, heads] : {std::pair{".q_proj.weight", "num_attention_heads"},
                                       std::pair{".k_proj.weight", "num_key_value_heads"}})
        if (tensor.name.ends_with(end)) tensor.values = converted(tensor, {"permute", config.at(heads)});
      tensor.name = mistral_name(tensor.name);
    }
    write_safetensors(folder_ + "/consolidated.safetensors", tensors);
  }

  void expect_goldens(const json::object& family, std::string_view type,
                      const ModelOverrides& overrides = {}) {
    auto source = ModelSource::open(folder_, {}, overrides);
    ASSERT_TRUE(source) << source.error().message();
    const auto model = read_model_config(**source);
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ(model->type, type);
    EXPECT_TRUE(model->unknown_options.empty()) << model->unknown_options.front();
    RunnerOptions options;
    options.dtype = "float32";
    options.num_blocks = 200;
    options.max_num_batched_tokens = 512;
    options.max_context = 128;
    const auto runner =
        LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
    ASSERT_TRUE(runner) << runner.error().message();
    EXPECT_TRUE((*runner)->ignored_tensors().empty()) << (*runner)->ignored_tensors().front();
    for (const json::value& line : family.at("goldens").as_array())
      expect_golden(**runner, (*runner)->kv_layout().block_size, line.as_object());
  }

  const std::string folder_;
};

TEST_F(MistralFolder, WindowsInSomeLayers) {
  const json::object family = read_family("ministral");
  json::object params = params_json(family.at("config").as_object());
  params["sliding_window"] = nullptr;
  params["_sliding_window"] = {nullptr, 12, 12, nullptr};
  write(family, params);
  expect_goldens(family, "ministral");
}

TEST_F(MistralFolder, YarnAndQueryTemperature) {
  const json::object family = read_family("ministral3");
  json::object params = params_json(family.at("config").as_object());
  params["yarn"] = {{"factor", 4}, {"original_max_position_embeddings", 16}, {"beta", 32}, {"alpha", 1}};
  params["llama_4_scaling"] = {{"beta", 0.3}, {"original_max_position_embeddings", 16}};
  params["vision_encoder"] = {{"hidden_size", 8}};
  params["q_lora_rank"] = nullptr;
  write(family, params);
  // The fixture's amplitude, which params.json cannot say.
  expect_goldens(family, "ministral3", {.rope = R"({"mscale":1.0,"mscale_all_dim":0.5})"});
}

TEST_F(MistralFolder, Experts) {
  const json::object family = read_family("mixtral");
  json::object params = params_json(family.at("config").as_object());
  params["moe"] = {{"num_experts", 6}, {"num_experts_per_tok", 2}, {"expert_parallel", 1}};
  write(family, params);
  expect_goldens(family, "mixtral");
}

}  // namespace
}  // namespace pagoda::testing
