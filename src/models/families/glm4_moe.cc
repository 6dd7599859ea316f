// GLM-4.5 and its successors: Llama with mixtures after dense layers, partial rotation, and in some models
// norms of query and key heads.
#include "models/reading.h"

namespace pagoda::glm4_moe {

void read_glm4_moe(Hyperparameters& h, ModelInfo& model) {
  if (h.boolean("use_qk_norm", false)) norm_heads(model.decoder);
  read_deepseek_like(h, model);
}

// The same without norms of queries and keys.
void read_glm4v_moe(Hyperparameters& h, ModelInfo& model) {
  h.only("use_qk_norm", false);
  read_deepseek_like(h, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  if (has_query_norm(h)) norm_heads(model.decoder);
}

extern const Family family = {
    .configs =
        {{"Glm4MoeForCausalLM", "glm4_moe",
          R"({"vocab_size":151552,"intermediate_size":10944,"num_hidden_layers":46,"num_attention_heads":96,
              "num_key_value_heads":8,"max_position_embeddings":131072,"partial_rotary_factor":0.5,
              "n_routed_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":1408,
              "n_shared_experts":1,"first_k_dense_replace":1,"norm_topk_prob":true,
              "routed_scaling_factor":1})",
          read_glm4_moe},
         {"Glm4vMoeTextModel", "glm4v_moe_text",
          R"({"vocab_size":151424,"intermediate_size":10944,"num_hidden_layers":46,"num_attention_heads":96,
              "num_key_value_heads":8,"max_position_embeddings":65536,"partial_rotary_factor":1,
              "n_routed_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":1408,
              "n_shared_experts":1,"first_k_dense_replace":1,"norm_topk_prob":true,
              "routed_scaling_factor":1})",
          read_glm4v_moe}},
    .wrappers = {{"Glm4vMoeForConditionalGeneration", "glm4v_moe", "glm4v_moe_text"}},
    .ggufs = {{"glm4moe", {.experts = {.known = true, .score = RouterScore::sigmoid}}, read_gguf}},
    .gguf_names = post_attention_gguf_names,
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "GLM 4.5, 4.5-Air, 4.6, text of 4.5V",
            .differs = "sigmoid routing with a correction and groups, partial RoPE",
            .size = "4.5-Air",
            .config = R"({"model_type":"glm4_moe","head_dim":128})"}};

}  // namespace pagoda::glm4_moe
