// Which layers have a window, and which rotate.
#include <algorithm>

#include "models/reading.h"

namespace pagoda {
std::int32_t read_optional_window(Hyperparameters& h) {
  const std::int32_t window = h.written("sliding_window") ? h.integer("sliding_window", 0) : 4096;
  return h.boolean("use_sliding_window", false) ? window : 0;
}

bool read_layer_types(Hyperparameters& h, ModelConfig& config, std::string_view other_name) {
  const json::value* types = h.find("layer_types");
  if (types == nullptr) return false;
  config.window_layers.clear();
  const json::array* list = types->if_array();
  if (list == nullptr || static_cast<std::int64_t>(list->size()) != config.num_layers) {
    h.fail("layer_types", "a list with one entry for each layer");
    return true;
  }
  for (const json::value& type : *list) {
    const bool sliding =
        type == "sliding_attention" || (!other_name.empty() && type == json::string_view(other_name));
    if (!sliding && type != "full_attention" && type != "attention") {
      h.refuse(concat("config.json: layer type ", show(type),
                      " is not supported; supported: full_attention, sliding_attention"));
    }
    config.window_layers.push_back(sliding);
  }
  return true;
}

void read_window_pattern(Hyperparameters& h, ModelConfig& config, std::int32_t period) {
  if (!read_layer_types(h, config)) {
    period = h.integer("sliding_window_pattern", h.integer("_sliding_window_pattern", period));
    if (period < 1) return h.fail("sliding_window_pattern", "a positive integer");
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back((layer + 1) % period != 0);
  }
  finish_windows(h, config);
}

void finish_windows(Hyperparameters& h, ModelConfig& config) {
  const bool any =
      std::find(config.window_layers.begin(), config.window_layers.end(), true) != config.window_layers.end();
  if (any && config.sliding_window == 0) h.fail("sliding_window", "given for sliding layers");
  if (!any) config.sliding_window = 0;
  if (config.sliding_window == 0) config.window_layers.clear();
}

// Every `period`-th layer attends to all, or as an array of booleans says, one for each layer.
void read_gguf_window_pattern(Hyperparameters& h, std::int32_t period, ModelConfig& config) {
  const std::vector<bool> listed = h.booleans("attention.sliding_window_pattern");
  if (!listed.empty()) {
    config.window_layers = listed;
  } else {
    period = h.integer("attention.sliding_window_pattern", period);
    if (period < 1) return h.fail("attention.sliding_window_pattern", "positive");
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back((layer + 1) % period != 0);
  }
  if (config.sliding_window == 0) config.window_layers.clear();
}

// Qwen's windows: either "from layer max_window_layers on", or written out per layer.
void read_qwen_windows(Hyperparameters& h, std::int32_t absent_first, ModelConfig& config) {
  config.sliding_window = read_optional_window(h);
  const std::int32_t first = h.integer("max_window_layers", absent_first);
  if (!read_layer_types(h, config)) {
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(config.sliding_window > 0 && layer >= first);
  }
  finish_windows(h, config);
}

void read_layer_thetas(Hyperparameters& h, ModelConfig& config) {
  const std::vector<float> thetas = h.numbers("layer_rope_theta");
  if (thetas.size() != config.window_layers.size())
    return h.fail("layer_rope_theta", "a number for each layer");
  float of_kind[2] = {0, 0};  // without and with a window
  for (std::size_t layer = 0; layer < thetas.size(); ++layer) {
    config.rope_layers.push_back(thetas[layer] != 0);
    if (thetas[layer] == 0) continue;
    float& theta = of_kind[config.window_layers[layer] ? 1 : 0];
    if (theta != 0 && theta != thetas[layer])
      return h.refuse(
          "config.json: 'layer_rope_theta' that differs among layers with a window, or among those without, "
          "is "
          "not supported");
    theta = thetas[layer];
  }
  if (std::ranges::find(config.rope_layers, false) == config.rope_layers.end()) config.rope_layers.clear();
  const auto [full, local] = of_kind;
  if (full != 0 && local != 0 && full != local) {
    config.rope_local_theta = local;
    if (config.rope_scaling != RopeScaling::none)
      h.refuse("config.json: a scaled rotation with two bases in 'layer_rope_theta' is not supported");
  }
  if (full != 0 || local != 0) config.rope_theta = full != 0 ? full : local;
}

// Windows where the file says so, layer by layer.
void read_listed_windows(Hyperparameters& h, std::int32_t otherwise, ModelConfig& config) {
  config.sliding_window = h.integer("sliding_window", otherwise);
  if (!read_layer_types(h, config)) config.sliding_window = 0;
  finish_windows(h, config);
}

void rotate_windows_alone(ModelConfig& config) {
  config.rope_layers = config.window_layers;
  if (config.rope_layers.empty()) rotate_nothing(config);
}

void rotate_three_of_four(ModelConfig& config) {
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.rope_layers.push_back((layer + 1) % 4 != 0);
}

void rotate_nothing(ModelConfig& config) {
  config.rotary_size = config.head_size;  // whatever the file says
  config.rope_layers.assign(static_cast<std::size_t>(listed_layers(config)), false);
}

void read_local_theta(Hyperparameters& h, ModelConfig& config) {
  config.rope_local_theta = h.number("rope.freq_base_swa", config.rope_theta);
  read_gguf_window_pattern(h, 4, config);
  read_layers_with_routers(h, config);
}

// As wide to each side as half of what the file says, with a rotation of their own.
void read_windows_to_both_sides(Hyperparameters& h, std::int32_t period, ModelConfig& config) {
  config.rope_local_theta = h.number("rope.freq_base_swa", 10000.0f);
  read_gguf_window_pattern(h, period, config);
  if (config.sliding_window > 0) config.sliding_window = config.sliding_window / 2 + 1;
}

std::int32_t listed_layers(const ModelConfig& config) { return std::clamp(config.num_layers, 0, 4096); }

}  // namespace pagoda
