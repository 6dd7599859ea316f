// Qwen1.5-MoE and Qwen2-57B-A14B: Qwen2 with mixtures, and an expert for all tokens that each takes a share
// of.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_qwen2_moe(Hyperparameters& h, ModelInfo& model) {
  h.without_effect("qkv_bias");  // as the tensors say
  if (const std::int32_t window = read_optional_window(h); window > 0) {
    const std::int32_t with = h.integer("max_window_layers", 28);
    const auto has_window = [&](std::int32_t layer) { return layer % 2 == 0 && layer < with; };
    use_windows(h, window, read_window_layers_or(h, model, has_window), model);
  }
  MixtureConfig mixture = read_experts(h, {.count = 60, .per_token = 4, .intermediate = 1408}, model);
  mixture.shared_intermediate_size = h.integer("shared_expert_intermediate_size", 5632);
  mixture.shared_gate = true;
  mixture.routing.renormalize = h.boolean("norm_topk_prob", false);
  use_mixtures(mixture, read_sparse_layers(h, model), model);
}

}  // namespace

PAGODA_FAMILY(qwen2_moe) = {
    .configs = {{"Qwen2MoeForCausalLM",
                 "qwen2_moe",
                 {.vocab_size = 151936,
                  .hidden_size = 2048,
                  .intermediate_size = 5632,
                  .num_layers = 24,
                  .num_heads = 16,
                  .num_kv_heads = 16,
                  .max_positions = 32768,
                  .norm_eps = 1e-6f},
                 read_qwen2_moe}},
    .ggufs = {{"qwen2moe", {.experts = {.known = true, .renormalize = false, .shared_gate = true}}}},
    .folder_experts = ExpertPlaces{.shared = "shared_expert"},
    .row = {.name = "Qwen 1.5 MoE, 2 57B-A14B",
            .differs = "Qwen 2 with mixtures, a gated shared expert",
            .size = "A2.7B",
            .config = R"({"model_type":"qwen2_moe"})"}};

}  // namespace pagoda
