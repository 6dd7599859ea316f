// Which layers have a window, and which rotate.
#include <algorithm>

#include "models/reading.h"

namespace pagoda {

void use_windows(Hyperparameters& h, std::int32_t window, const std::vector<bool>& which, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  if (window < 0) return h.corrupt("the sliding window is negative");
  if (!which.empty() && which.size() != decoder.layers.size())
    return h.corrupt("windows or rotations are not given for every layer");
  if (window == 0 && std::ranges::find(which, true) != which.end())
    return h.fail("sliding_window", "given for sliding layers");
  for (std::size_t index = 0; index < decoder.layers.size(); ++index) {
    AttentionConfig* const attention = decoder.layers[index].attention();
    if (attention == nullptr) continue;
    attention->sliding_window = which.empty() || which[index] ? window : 0;
    if (attention->rope != kNoRope)
      attention->rope = attention->sliding_window > 0 && decoder.ropes.size() > 1 ? 1 : 0;
  }
}

std::int32_t read_window(Hyperparameters& h) { return h.nullable_integer("sliding_window", 0); }

std::int32_t read_optional_window(Hyperparameters& h) {
  const std::int32_t window = read_window(h);
  return h.boolean("use_sliding_window", false) ? window : 0;
}

std::vector<bool> read_layers_called(Hyperparameters& h, std::string_view name,
                                     std::initializer_list<std::string_view> others, const ModelInfo& model) {
  std::vector<bool> layers;
  const json::array* const list = list_of_layers(h, "layer_types", model);
  if (list == nullptr) return layers;
  for (const json::value& type : *list) {
    layers.push_back(type == json::string_view(name));
    const auto is_type = [&](std::string_view other) { return type == json::string_view(other); };
    if (layers.back() || type == "attention" || std::ranges::any_of(others, is_type)) continue;
    std::string known(name);
    for (const std::string_view other : others) known += concat(", ", other);
    h.refuse(concat("config.json: layer type ", show(type), " is not supported; supported: ", known));
  }
  return layers;
}

std::vector<bool> read_window_layers(Hyperparameters& h, const ModelInfo& model) {
  return read_layers_called(h, "sliding_attention", {"full_attention"}, model);
}

void read_window_pattern(Hyperparameters& h, std::int32_t period, ModelInfo& model,
                         std::optional<std::int32_t> window) {
  if (h.gguf() != nullptr) return read_gguf_window_pattern(h, period, model);
  if (h.find("layer_types") == nullptr) {
    period = h.integer("sliding_window_pattern", h.integer("_sliding_window_pattern", period));
    if (period < 1) return h.fail("sliding_window_pattern", "a positive integer");
  }
  use_windows(h, window ? *window : h.integer("sliding_window", 0),
              read_window_layers_or(h, model, [&](std::int32_t layer) { return (layer + 1) % period != 0; }),
              model);
}

// Every `period`-th layer has full attention, or an array of booleans, one per layer, says which layers have
// a window.
void read_gguf_window_pattern(Hyperparameters& h, std::int32_t period, ModelInfo& model, SeesAll which) {
  const std::int32_t window = model.decoder.layers.front().attention()->sliding_window;
  std::vector<bool> layers = h.booleans("attention.sliding_window_pattern");
  if (layers.empty()) {
    period = h.integer("attention.sliding_window_pattern", period);
    if (period < 1) return h.fail("attention.sliding_window_pattern", "positive");
    const std::int32_t first = which == SeesAll::last ? 1 : 0;
    layers = layers_where(model, [&](std::int32_t layer) { return (layer + first) % period != 0; });
  }
  if (window > 0) use_windows(h, window, layers, model);
}

void read_gguf_rotating_windows(Hyperparameters& h, ModelInfo& model) {
  if (model.decoder.layers.front().attention()->sliding_window == 0) return;
  read_gguf_window_pattern(h, 4, model);
  rotate_windows_alone(model.decoder);
}

void read_windows_to_both_sides(Hyperparameters& h, std::int32_t period, ModelInfo& model, SeesAll which) {
  rotate_windows_by(h.number("rope.freq_base_swa", 10000.0f), model);
  read_gguf_window_pattern(h, period, model, which);
  each_attention(model.decoder, [](AttentionConfig& attention) {
    if (attention.sliding_window > 0) attention.sliding_window = attention.sliding_window / 2 + 1;
  });
}

// Qwen's windows: from layer max_window_layers on, or listed per layer.
void read_qwen_windows(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t window = read_optional_window(h);
  const std::int32_t first = h.integer("max_window_layers");
  use_windows(
      h, window,
      read_window_layers_or(h, model, [&](std::int32_t layer) { return window > 0 && layer >= first; }),
      model);
}

void read_layer_thetas(Hyperparameters& h, const std::vector<bool>& windows, ModelInfo& model) {
  const std::vector<float> thetas = h.numbers("layer_rope_theta");
  if (thetas.size() != windows.size()) return h.fail("layer_rope_theta", "a number for each layer");
  float of_kind[2] = {0, 0};  // without and with a window
  std::vector<bool> rotating;
  for (std::size_t layer = 0; layer < thetas.size(); ++layer) {
    rotating.push_back(thetas[layer] != 0);
    if (thetas[layer] == 0) continue;
    float& theta = of_kind[windows[layer] ? 1 : 0];
    if (theta != 0 && theta != thetas[layer])
      return h.refuse(
          "config.json: 'layer_rope_theta' that differs among layers with a window, or among those without, "
          "is not supported");
    theta = thetas[layer];
  }
  rotate_layers(h, rotating, model.decoder);
  RopeConfig& rope = model.decoder.ropes.front();
  const auto [full, local] = of_kind;
  if (full != 0 || local != 0) rope.theta = full != 0 ? full : local;
  if (full == 0 || local == 0 || full == local) return;
  if (rope.scaling != RopeScaling::none)
    h.refuse("config.json: a scaled rotation with two bases in 'layer_rope_theta' is not supported");
  rotate_windows_by(local, model);
}

// Reads windows from "layer_types" if present; otherwise there are none.
void read_listed_windows(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t window = h.integer("sliding_window");
  if (h.find("layer_types") != nullptr) use_windows(h, window, read_window_layers(h, model), model);
}

void rotate_windows_by(float theta, ModelInfo& model, std::int32_t rotary_size) {
  std::vector<RopeConfig>& ropes = model.decoder.ropes;
  ropes.resize(1);
  if (theta == 0) return;
  const std::int32_t whole = ropes.front().rotary_size;
  ropes.push_back({.theta = theta, .rotary_size = rotary_size != 0 ? rotary_size : whole});
  each_attention(model.decoder, [](AttentionConfig& attention) {
    if (attention.sliding_window > 0 && attention.rope != kNoRope) attention.rope = 1;
  });
}

void rotate_layers(Hyperparameters& h, const std::vector<bool>& which, DecoderConfig& decoder) {
  if (which.size() != decoder.layers.size())
    return h.corrupt("windows or rotations are not given for every layer");
  for (std::size_t index = 0; index < which.size(); ++index)
    if (AttentionConfig* const attention = decoder.layers[index].attention();
        attention != nullptr && !which[index])
      attention->rope = kNoRope;
}

}  // namespace pagoda
