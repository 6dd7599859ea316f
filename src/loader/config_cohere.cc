// config.json of Cohere's families. The feed-forward sees what attention sees.
#include <algorithm>
#include <ranges>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// What all of them have.
void read_cohere_like(Fields& fields, Defaults absent, ModelConfig& config) {
  absent.eps_name = "layer_norm_eps";
  read_common(fields, absent, config);
  config.logit_scale = fields.number("logit_scale", 0.0625f);
  config.rope_interleaved_rows = config.parallel = true;
}

}  // namespace

void read_cohere(Fields& fields, ModelConfig& config) {
  read_cohere_like(fields, {256000, 8192, 22528, 40, 64, 0, 8192, 1e-5f, 500000.0f, 5, 255001, 0, true}, config);
  config.query_key_norm = fields.boolean("use_qk_norm", false);
}

// Three of four layers have a window, and they alone rotate.
void read_cohere2(Fields& fields, ModelConfig& config) {
  read_cohere_like(fields, {256000, 8192, 22528, 40, 64, 0, 8192, 1e-5f, 10000.0f, 5, 255001, 0, true}, config);
  fields.only("use_qk_norm", false);
  config.sliding_window = fields.integer("sliding_window", 4096);
  read_window_pattern(fields, config, 4);
  rotate_with_windows(config);
}

// Mixtures behind dense layers, which may have another pattern of windows; dense ones that all see everything
// rotate all the same. What shared experts give is averaged with the others, or added.
void read_cohere2_moe(Fields& fields, ModelConfig& config) {
  read_cohere_like(fields, {256000, 8192, 22528, 40, 64, 0, 8192, 1e-5f, 10000.0f, 5, 255001, 0, true, 128}, config);
  if (fields.find("rms_norm_eps") != nullptr) {
    config.architecture = "cohere2moe rms";
    config.norm_eps = fields.number("rms_norm_eps", 0);
  }

  ExpertsConfig& experts = config.experts;
  experts.count = fields.integer("num_experts", 8);
  experts.per_token = fields.integer("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  const std::int64_t shared =
      std::int64_t{std::clamp(fields.integer("num_shared_experts", 0), -1, 1 << 10)} *
      std::clamp(experts.intermediate_size, 0, 1 << 24);
  experts.shared_intermediate_size = static_cast<std::int32_t>(std::clamp<std::int64_t>(shared, -1, 1 << 30));
  const std::string how = fields.string("shared_expert_combination_strategy", "average");
  if (how != "average") fields.only("shared_expert_combination_strategy", "sum");
  if (how == "average" && shared > 0) experts.scale = experts.shared_scale = 0.5f;
  const bool normed = fields.boolean("norm_topk_prob", true);
  if (fields.string("expert_selection_fn", "softmax") == "softmax") {
    experts.score = ExpertScore::softmax_of_chosen;
  } else {
    fields.only("expert_selection_fn", "sigmoid");
    experts.score = ExpertScore::sigmoid;
    experts.renormalize = normed;
  }
  const std::int32_t dense = std::max(fields.integer("first_k_dense_replace", 0), 0);
  read_mlp_types(fields, dense, config);
  const std::int32_t wide = fields.integer("prefix_dense_intermediate_size", 0);
  if (std::ranges::find(experts.layers, false) != experts.layers.end()) config.intermediate_size = wide;

  config.sliding_window = fields.integer("sliding_window", 4096);
  const std::int32_t period = fields.integer("sliding_window_pattern", 4);
  const std::int32_t dense_period = fields.integer("prefix_dense_sliding_window_pattern", 1);
  if (period < 1 || dense_period < 1) return fields.fail("sliding_window_pattern", "a positive integer");
  if (!read_layer_types(fields, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer < dense ? (layer + 1) % dense_period != 0
                                                   : (layer - dense + 1) % period != 0);
  if (!fields.status().ok()) return;
  for (std::size_t layer = 0; layer < config.window_layers.size(); ++layer)
    config.rope_layers.push_back(config.window_layers[layer] || (!experts.layers[layer] && dense_period == 1));
  finish_windows(fields, config);
}

}  // namespace pagoda
