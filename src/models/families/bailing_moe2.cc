// Ling and Ring 2 (bailing_moe): Llama with fused query, key and value, norms of query and key heads, partial
// rotation, and mixtures after dense layers.
#include "models/reading.h"

namespace pagoda::bailing_moe2 {

void read_bailing_moe2(Hyperparameters& h, ModelInfo& model) {
  for (const std::string_view option : {"use_bias", "use_qkv_bias"}) h.only(option, false);
  h.only("use_qk_norm", true);
  h.only("moe_router_enable_expert_bias", true);
  if (h.find("score_function") != nullptr) h.only("score_function", "sigmoid");
  read_deepseek_like(h, model);
}

void names(WeightNames& names) {
  names.query = names.key = names.value = "";
  names.token_embedding = "model.word_embeddings";
  names.fused_qkv = "attention.query_key_value";
  names.attention_output = "attention.dense";
  names.query_norm = "attention.query_layernorm";
  names.key_norm = "attention.key_layernorm";
  names.experts.push_back(mlx_experts(names.experts.front(), "mlp.switch_mlp"));
  names.experts.back().router = "mlp.gate.gate_proj";
}

extern const Family family = {
    .configs = {{"BailingMoeV2ForCausalLM", "bailing_moe",
                 R"({"vocab_size":157184,"hidden_size":2048,"intermediate_size":5120,"num_hidden_layers":20,
                     "num_attention_heads":16,"num_key_value_heads":4,"max_position_embeddings":32768,
                     "rms_norm_eps":1e-6,"rope_theta":600000,"eos_token_id":156892,"pad_token_id":156892,
                     "head_dim":128,"partial_rotary_factor":0.5,"num_experts":256,"num_experts_per_tok":8,
                     "moe_intermediate_size":1408,"num_shared_experts":1,"norm_topk_prob":true,
                     "routed_scaling_factor":1,"n_group":8,"topk_group":4,"first_k_dense_replace":1})",
                 read_bailing_moe2}},
    .ggufs = {{"bailingmoe2", {.experts = {.known = true, .score = RouterScore::sigmoid}}}},
    .shape = norm_heads,
    .names = names,
    .folder_experts = ExpertPlaces{.shared = "shared_experts", .correction = "mlp.gate.expert_bias"},
    .row = {.name = "Ling, Ring 2: mini 16B-A1.4B",
            .differs = "query, key and value in one matrix, RoPE on half of each head, norms of queries and "
                       "keys, GLM 4.5's routing",
            .checked = "transformers' GLM 4.5 on the same numbers",
            .size = "mini"}};

}  // namespace pagoda::bailing_moe2
