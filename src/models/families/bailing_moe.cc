// Ling-lite and Ling-plus (bailing_moe): Llama with fused query, key and value, mixtures, and shared experts.
#include "models/reading.h"

namespace pagoda::bailing_moe {

void read(Hyperparameters& h, ModelInfo& model) {
  for (const std::string_view option :
       {"use_bias", "use_qkv_bias", "norm_head", "norm_softmax", "multi_gate"})
    h.only(option, false);
  read_deepseek_like(h, model);
}

extern const Family family = {
    .architecture = "bailingmoe",
    .configs = {{"BailingMoeForCausalLM", "bailing_moe",
                 R"({"vocab_size":126464,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":28,
                     "num_attention_heads":16,"num_key_value_heads":4,"max_position_embeddings":16384,
                     "rope_theta":600000,"eos_token_id":126081,"num_experts":64,"num_experts_per_tok":6,
                     "moe_intermediate_size":1408,"num_shared_experts":2,"norm_topk_prob":true,
                     "routed_scaling_factor":1,"scoring_func":"softmax"})",
                 read}},
    .names =
        [](WeightNames& names) {
          names.token_embedding = "model.word_embeddings";
          names.query = names.key = names.value = "";
          names.fused_qkv = "attention.query_key_value";
          names.attention_output = "attention.dense";
          names.experts.push_back(mlx_experts(names.experts.front(), "mlp.switch_mlp"));
          names.experts.back().router = "mlp.gate.gate_proj";
        },
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "Ling-lite 16.8B-A2.75B, Ling-plus, Ling-Coder-lite",
            .differs = "query, key and value in one matrix, mixtures, shared experts",
            .checked = "transformers' Qwen 2 MoE on the same numbers",
            .size = "lite",
            .config =
                R"({"architectures":["BailingMoeForCausalLM"],"model_type":"bailing_moe","head_dim":128})"}};

}  // namespace pagoda::bailing_moe
