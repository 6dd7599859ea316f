// Qwen3-30B-A3B, Qwen3-Coder, ...: Qwen3 with mixtures.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_qwen3_moe(Hyperparameters& h, ModelInfo& model) {
  use_windows(h, read_optional_window(h), {}, model);
  MixtureConfig mixture = read_experts(h, {.count = 128, .per_token = 8, .intermediate = 768}, model);
  mixture.routing.renormalize = h.boolean("norm_topk_prob", false);
  use_mixtures(mixture, read_sparse_layers(h, model), model);
}

}  // namespace

PAGODA_FAMILY(qwen3_moe) = {
    .configs = {{"Qwen3MoeForCausalLM",
                 "qwen3_moe",
                 {.vocab_size = 151936,
                  .hidden_size = 2048,
                  .intermediate_size = 6144,
                  .num_layers = 24,
                  .num_kv_heads = 4,
                  .max_positions = 32768,
                  .norm_eps = 1e-6f},
                 read_qwen3_moe}},
    .ggufs = {{"qwen3moe", {.experts = {.known = true}}}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{},
    .row = {.name = "Qwen 3 MoE: 30B-A3B, 235B-A22B, Coder",
            .differs = "Qwen 3 with mixtures of experts",
            .size = "30B-A3B",
            .config = R"({"model_type":"qwen3_moe","num_hidden_layers":48,"head_dim":128})"}};

}  // namespace pagoda
