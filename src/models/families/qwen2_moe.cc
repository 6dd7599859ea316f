// Qwen1.5-MoE and Qwen2-57B-A14B: Qwen2 with mixtures, and a gated expert shared by all tokens.
#include "models/reading.h"

namespace pagoda::qwen2_moe {

void read_qwen2_moe(Hyperparameters& h, ModelInfo& model) {
  h.without_effect("qkv_bias");  // implied by the tensors
  if (const std::int32_t window = read_optional_window(h); window > 0) {
    const std::int32_t with = h.integer("max_window_layers");
    const auto has_window = [&](std::int32_t layer) { return layer % 2 == 0 && layer < with; };
    use_windows(h, window, read_window_layers_or(h, model, has_window), model);
  }
  use_mixtures(read_gated_experts(h, model), read_sparse_layers(h, model), model);
}

extern const Family family = {
    .configs = {{"Qwen2MoeForCausalLM", "qwen2_moe",
                 R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,
                     "num_attention_heads":16,"num_key_value_heads":16,"max_position_embeddings":32768,
                     "rms_norm_eps":1e-6,"sliding_window":4096,"max_window_layers":28,"num_experts":60,
                     "num_experts_per_tok":4,"moe_intermediate_size":1408,
                     "shared_expert_intermediate_size":5632,"norm_topk_prob":false})",
                 read_qwen2_moe}},
    .ggufs = {{"qwen2moe", {.experts = {.known = true, .renormalize = false, .shared_gate = true}}}},
    .folder_experts = ExpertPlaces{.shared = "shared_expert"},
    .row = {.name = "Qwen 1.5 MoE, 2 57B-A14B",
            .differs = "Qwen 2 with mixtures, a gated shared expert",
            .size = "A2.7B"}};

}  // namespace pagoda::qwen2_moe
