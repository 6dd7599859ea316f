// DeepSeek-MoE 16B, the first DeepSeek with mixtures: Llama with mixtures after a dense layer, and shared
// experts.
#include "models/reading.h"

namespace pagoda::deepseek_moe {

void read(Hyperparameters& h, ModelInfo& model) {
  read_deepseek_like(h, model);
  h.only("moe_layer_freq", 1);
}

extern const Family family = {
    .configs = {{"DeepseekForCausalLM", "deepseek",
                 R"({"vocab_size":102400,"intermediate_size":11008,"num_hidden_layers":30,"rms_norm_eps":1e-6,
                     "bos_token_id":100000,"eos_token_id":100001,"scoring_func":"softmax",
                     "n_routed_experts":64,"num_experts_per_tok":6,"moe_intermediate_size":1407,
                     "n_shared_experts":2,"norm_topk_prob":false,"routed_scaling_factor":1})",
                 read}},
    .ggufs = {{"deepseek", {.interleaved_rows = true, .experts = {.known = true, .renormalize = false}}}},
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "DeepSeek-MoE 16B",
            .differs = "mixtures after a dense layer, shared experts",
            .checked = "transformers' Qwen 2 MoE on the same numbers",
            .size = "16B",
            .config = R"({"model_type":"deepseek","hidden_size":2048,"num_hidden_layers":28,
                          "num_attention_heads":16,"max_position_embeddings":4096,
                          "first_k_dense_replace":1})"}};

}  // namespace pagoda::deepseek_moe
