// Qwen1.5-MoE and Qwen2-57B-A14B: Qwen2 with mixtures, and an expert for all tokens that each takes a share
// of.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_qwen2_moe(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 151936,
               .hidden_size = 2048,
               .intermediate_size = 5632,
               .num_layers = 24,
               .num_heads = 16,
               .num_kv_heads = 16,
               .max_positions = 32768,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f},
              config);
  config.attention_bias = h.boolean("qkv_bias", true);
  config.sliding_window = read_optional_window(h);
  if (config.sliding_window > 0) {
    const std::int32_t with = h.integer("max_window_layers", 28);
    if (!read_layer_types(h, config))
      for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
        config.window_layers.push_back(layer % 2 == 0 && layer < with);
    finish_windows(h, config);
  }
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 60);
  experts.per_token = h.integer("num_experts_per_tok", 4);
  experts.intermediate_size = h.integer("moe_intermediate_size", 1408);
  experts.shared_intermediate_size = h.integer("shared_expert_intermediate_size", 5632);
  experts.shared_gate = true;
  experts.renormalize = h.boolean("norm_topk_prob", false);
  read_sparse_layers(h, config);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "shared_expert");
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .renormalize = false}}, config);
  read_layers_with_routers(h, config);
  config.experts.shared_gate = true;
}

}  // namespace

PAGODA_FAMILY(qwen2_moe) = {
    .architecture = "qwen2moe",
    .configs = {{"Qwen2MoeForCausalLM", "Qwen2MoeModel", "qwen2_moe", read_qwen2_moe}},
    .ggufs = {{"qwen2moe", read_gguf}},
    .describe = common_description,
    .names = names,
    .row = {.name = "Qwen 1.5 MoE, 2 57B-A14B",
            .differs = "Qwen 2 with mixtures, a gated shared expert",
            .checked = "transformers",
            .size = "A2.7B",
            .config = R"({"model_type":"qwen2_moe"})"}};

}  // namespace pagoda
