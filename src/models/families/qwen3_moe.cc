// Qwen3-30B-A3B, Qwen3-Coder, ...: Qwen3 with mixtures.
#include "models/reading.h"

namespace pagoda::qwen3_moe {

void read_qwen3_moe(Hyperparameters& h, ModelInfo& model) {
  use_windows(h, read_optional_window(h), {}, model);
  use_mixtures(read_experts(h, model), read_sparse_layers(h, model), model);
}

extern const Family family = {
    .configs = {{"Qwen3MoeForCausalLM", "qwen3_moe",
                 R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":24,
                     "num_key_value_heads":4,"max_position_embeddings":32768,"rms_norm_eps":1e-6,
                     "sliding_window":4096,"num_experts":128,"num_experts_per_tok":8,
                     "moe_intermediate_size":768,"norm_topk_prob":false})",
                 read_qwen3_moe}},
    .ggufs = {{"qwen3moe", {.experts = {.known = true}}}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{},
    .row = {.name = "Qwen 3 MoE: 30B-A3B, 235B-A22B, Coder",
            .differs = "Qwen 3 with mixtures of experts",
            .size = "30B-A3B",
            .config = R"({"model_type":"qwen3_moe","num_hidden_layers":48,"head_dim":128})"}};

}  // namespace pagoda::qwen3_moe
