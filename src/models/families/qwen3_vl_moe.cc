// The text model of Qwen3-VL with mixtures.
#include "models/reading.h"

namespace pagoda::qwen3_vl_moe {

void read_qwen3_vl_moe(Hyperparameters& h, ModelInfo& model) {
  h.only("norm_topk_prob", true);
  use_mixtures(read_experts(h, model), read_sparse_layers(h, model), model);
}

extern const Family family = {
    .configs = {{"Qwen3VLMoeTextModel", "qwen3_vl_moe_text",
                 R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,
                     "num_attention_heads":16,"num_key_value_heads":16,"max_position_embeddings":128000,
                     "rms_norm_eps":1e-6,"rope_theta":500000,"tie_word_embeddings":true,"num_experts":60,
                     "num_experts_per_tok":4,"moe_intermediate_size":1408,"norm_topk_prob":true})",
                 read_qwen3_vl_moe}},
    .wrappers = {{"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", "qwen3_vl_moe_text"}},
    .ggufs = {{"qwen3vlmoe", {.experts = {.known = true}}}},
    .shape = norm_heads,
    .names =
        [](WeightNames& names) {
          names.experts.back().transposed = true;  // all in one tensor: [in, out]
        },
    .folder_experts = ExpertPlaces{},
    .row = {.name = "Qwen3-VL-MoE: 30B-A3B, 235B-A22B (text)",
            .differs = "Qwen 3 MoE",
            .size = "30B-A3B",
            .config = R"({"model_type":"qwen3_vl_moe_text","num_hidden_layers":48,"num_key_value_heads":4,
                          "head_dim":128})"}};

}  // namespace pagoda::qwen3_vl_moe
