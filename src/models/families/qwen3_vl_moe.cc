// The text part of Qwen3-VL with mixtures.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_qwen3_vl_moe(Hyperparameters& h, ModelInfo& model) {
  MixtureConfig mixture = read_experts(h, {.count = 60, .per_token = 4, .intermediate = 1408}, model);
  mixture.routing.renormalize = true;
  h.only("norm_topk_prob", true);
  use_mixtures(mixture, read_sparse_layers(h, model), model);
}

}  // namespace

PAGODA_FAMILY(qwen3_vl_moe) = {
    .configs = {{"Qwen3VLMoeTextModel",
                 "qwen3_vl_moe_text",
                 {.vocab_size = 151936,
                  .hidden_size = 2048,
                  .intermediate_size = 5632,
                  .num_layers = 24,
                  .num_heads = 16,
                  .num_kv_heads = 16,
                  .max_positions = 128000,
                  .norm_eps = 1e-6f,
                  .rope_theta = 500000.0f,
                  .tied = true},
                 read_qwen3_vl_moe}},
    .wrappers = {{"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", "qwen3_vl_moe_text"}},
    .ggufs = {{"qwen3vlmoe", {.experts = {.known = true}}}},
    .shape = norm_heads,
    .folder_names =
        [](WeightNames& names) {
          names.experts = hf_expert_names({});
          names.experts.back().transposed = true;  // all in one tensor: [in, out]
        },
    .row = {.name = "Qwen3-VL-MoE: 30B-A3B, 235B-A22B (text)",
            .differs = "Qwen 3 MoE",
            .size = "30B-A3B",
            .config = R"({"model_type":"qwen3_vl_moe_text","num_hidden_layers":48,"num_key_value_heads":4,
                       "head_dim":128})"}};

}  // namespace pagoda
