// Command A+ and North Mini Code (Cohere): Command R7B with mixtures behind dense layers, and in some models
// RMS norms.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Mixtures behind dense layers, which may have another pattern of windows; dense ones that all see everything
// rotate all the same. What shared experts give is averaged with the others, or added.
void read_cohere2_moe(Hyperparameters& h, ModelConfig& config) {
  read_cohere_like(h,
                   {.vocab_size = 256000,
                    .hidden_size = 8192,
                    .intermediate_size = 22528,
                    .num_layers = 40,
                    .num_heads = 64,
                    .max_positions = 8192,
                    .norm_eps = 1e-5f,
                    .rope_theta = 10000.0f,
                    .bos = 5,
                    .eos = 255001,
                    .pad = 0,
                    .tied = true,
                    .head_size = 128},
                   config);
  if (h.find("rms_norm_eps") != nullptr) {
    config.describe = common_description;
    config.norm_eps = h.number("rms_norm_eps", 0);
  }

  ExpertsConfig& experts = config.experts;
  experts.count = h.integer("num_experts", 8);
  experts.per_token = h.integer("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  const std::int64_t shared = std::int64_t{std::clamp(h.integer("num_shared_experts", 0), -1, 1 << 10)} *
                              std::clamp(experts.intermediate_size, 0, 1 << 24);
  experts.shared_intermediate_size = static_cast<std::int32_t>(std::clamp<std::int64_t>(shared, -1, 1 << 30));
  const std::string how = h.string("shared_expert_combination_strategy", "average");
  if (how != "average") h.only("shared_expert_combination_strategy", "sum");
  if (how == "average" && shared > 0) experts.scale = experts.shared_scale = 0.5f;
  const bool normed = h.boolean("norm_topk_prob", true);
  if (h.string("expert_selection_fn", "softmax") == "softmax") {
    experts.score = ExpertScore::softmax_of_chosen;
  } else {
    h.only("expert_selection_fn", "sigmoid");
    experts.score = ExpertScore::sigmoid;
    experts.renormalize = normed;
  }
  const std::int32_t dense = std::max(h.integer("first_k_dense_replace", 0), 0);
  read_mlp_types(h, dense, config);
  const std::int32_t wide = h.integer("prefix_dense_intermediate_size", 0);
  if (std::ranges::find(experts.layers, false) != experts.layers.end()) config.intermediate_size = wide;

  config.sliding_window = h.integer("sliding_window", 4096);
  const std::int32_t period = h.integer("sliding_window_pattern", 4);
  const std::int32_t dense_period = h.integer("prefix_dense_sliding_window_pattern", 1);
  if (period < 1 || dense_period < 1) return h.fail("sliding_window_pattern", "a positive integer");
  if (!read_layer_types(h, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer < dense ? (layer + 1) % dense_period != 0
                                                   : (layer - dense + 1) % period != 0);
  if (!h.status().ok()) return;
  for (std::size_t layer = 0; layer < config.window_layers.size(); ++layer)
    config.rope_layers.push_back(config.window_layers[layer] ||
                                 (!experts.layers[layer] && dense_period == 1));
  finish_windows(h, config);
}

WeightNames moe_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "shared_experts");
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h,
                   {.layer_norm = true,
                    .may_have_rms_norms = true,
                    .interleaved_rows = true,
                    .parallel = true,
                    .experts = {.known = true, .score = ExpertScore::sigmoid, .renormalize = false}},
                   config);
  config.logit_scale = h.number("logit_scale", 1.0f);
  read_layers_with_routers(h, config);
  read_gguf_window_pattern(h, 4, config);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.rope_layers.push_back(config.has_window(layer) || !config.experts.in_layer(layer));
  if (config.experts.shared_intermediate_size > 0) config.experts.scale = config.experts.shared_scale = 0.5f;
  if (h.written("attention.layer_norm_rms_epsilon")) config.describe = common_description;
}

}  // namespace

PAGODA_FAMILY(cohere2_moe) = {
    .architecture = "cohere2moe",
    .configs = {{"Cohere2MoeForCausalLM", "Cohere2MoeModel", "cohere2_moe", read_cohere2_moe}},
    .ggufs = {{"cohere2moe", read_gguf}},
    .describe = layer_norm_description,
    .names = moe_names,
    .row = {
        .name = "Command A+, North Mini Code 30B-A3B",
        .differs = "Command R7B with mixtures behind dense layers, whose shared expert is averaged with the "
                   "others; layer or RMS norms",
        .checked = "transformers",
        .size = "30B-A3B",
        .config = R"({"model_type":"cohere2_moe","hidden_size":2048,"num_hidden_layers":49,
                       "num_attention_heads":16,"num_key_value_heads":4,"intermediate_size":1024,
                       "num_experts":128})"}};

}  // namespace pagoda
