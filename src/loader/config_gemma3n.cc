// config.json of Gemma 3n: of five layers four have a window; the last ones share keys and values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// How many standard deviations above the mean of a normal distribution so much of it lies below: 0 < share < 1.
float deviations_of(float share) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
  }
  return static_cast<float>(low);
}

// Of each layer the share of features that are cut off; 0: its feed-forward is dense.
void read_sparsity(Fields& fields, ModelConfig& config) {
  constexpr float kDense = -std::numeric_limits<float>::infinity();
  constexpr std::string_view kName = "activation_sparsity_pattern";
  constexpr std::size_t kFirst = 10;  // layers that are sparse where the file does not say so
  const auto count = static_cast<std::size_t>(listed_layers(config));
  std::vector<float> shares(count, 0.0f);
  if (fields.find(kName) != nullptr)
    shares = fields.numbers(kName);
  else if (count > kFirst)
    std::fill_n(shares.begin(), kFirst, 0.95f);
  if (shares.size() != count) return fields.fail(kName, "a number for each layer");
  for (const float share : shares) {
    if (!(share >= 0) || share >= 1) return fields.fail(kName, "in [0, 1) for each layer");
    config.sparse_cutoffs.push_back(share > 0 ? deviations_of(share) : kDense);
  }
}

// One for all, or one for each layer.
void read_intermediate_sizes(Fields& fields, ModelConfig& config) {
  constexpr std::string_view kName = "intermediate_size";
  const json::value* sizes = fields.find(kName);
  if (sizes == nullptr || !sizes->is_array()) {
    config.intermediate_size = fields.integer(kName, 16384);
    return;
  }
  const std::vector<float> each = fields.numbers(kName);
  if (each.empty() || each.size() != static_cast<std::size_t>(listed_layers(config)))
    return fields.fail(kName, "a number, or one for each layer");
  for (const float size : each) {
    const auto features = static_cast<std::int32_t>(std::clamp(size, -1.0f, 16777217.0f));
    config.layer_sizes.push_back({.num_kv_heads = config.num_kv_heads,
                                  .head_size = config.head_size,
                                  .intermediate_size = features});
    config.intermediate_size = std::max(config.intermediate_size, features);
  }
  if (std::ranges::adjacent_find(each, std::ranges::not_equal_to()) == each.end()) config.layer_sizes.clear();
}

}  // namespace

void read_gemma3n(Fields& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 262400);
  config.hidden_size = fields.integer("hidden_size", 2048);
  config.num_layers = fields.integer("num_hidden_layers", 35);
  config.num_heads = fields.integer("num_attention_heads", 8);
  config.num_kv_heads = fields.integer("num_key_value_heads", 2);
  config.head_size = fields.integer("head_dim", 256);
  config.max_positions = fields.integer("max_position_embeddings", 32768);
  config.norm_eps = fields.number("rms_norm_eps", 1e-6f);
  config.activation = fields.string("hidden_activation", "gelu_pytorch_tanh");
  config.tie_embeddings = fields.boolean("tie_word_embeddings", true);
  config.attention_bias = fields.boolean("attention_bias", false);
  config.attention_scale = 1;
  config.logit_softcap =
      fields.written("final_logit_softcapping") ? fields.number("final_logit_softcapping", 0) : 30;
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 2;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  read_rope_by_layer(fields, config, 1000000.0f, 10000.0f);
  read_intermediate_sizes(fields, config);
  config.sliding_window = fields.integer("sliding_window", 512);
  read_window_pattern(fields, config, 5);
  config.shared_kv_layers = fields.integer("num_kv_shared_layers", 15);
  config.layer_input_size = fields.integer("hidden_size_per_layer_input", 256);
  config.layer_input_rows = fields.integer("vocab_size_per_layer_input", 262144);
  config.num_streams = fields.integer("altup_num_inputs", 4);
  config.scaled_streams = fields.boolean("altup_correct_scale", true);
  fields.only("altup_active_idx", 0);
  fields.find("altup_coef_clip");  // of training
  config.learned_residual = fields.integer("laurel_rank", 64);
  read_sparsity(fields, config);
  if (config.activation != "gelu_pytorch_tanh")
    fields.refuse("config.json: 'hidden_activation' of Gemma 3n can only be 'gelu_pytorch_tanh'");
}

}  // namespace pagoda
