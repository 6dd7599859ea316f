// Which layers have a window in GGUF metadata, and families that have little else of their own.
#include <algorithm>
#include <cmath>

#include "loader/gguf_families.h"

namespace pagoda {

// Every `period`-th layer attends to all, or as an array of booleans says, one for each layer.
void read_window_pattern(const GgufFile& file, Keys& keys, std::int32_t period, ModelConfig& config) {
  const GgufArray* pattern = file.array(concat(config.architecture, ".attention.sliding_window_pattern"));
  if (pattern != nullptr && !pattern->booleans.empty()) {
    config.window_layers = pattern->booleans;
  } else {
    period = keys.integer("attention.sliding_window_pattern", period);
    if (period < 1)
      return keys.fail(corrupt_data("GGUF metadata 'attention.sliding_window_pattern' is not positive"));
    for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
      config.window_layers.push_back((layer + 1) % period != 0);
  }
  if (config.sliding_window == 0) config.window_layers.clear();
}

// The file does not say that the embedding is scaled; layers without a window do not rotate.
void read_gguf_afmoe(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(std::max(config.hidden_size, 0)));
  read_window_pattern(file, keys, 4, config);
  config.rope_layers = config.window_layers;
  if (config.rope_layers.empty())
    config.rope_layers.assign(static_cast<std::size_t>(std::clamp(config.num_layers, 0, 4096)), false);
  read_layers_with_routers(file, keys, config);
}

// Of four layers the first sees everything. The file has no other base for windows.
void read_gguf_granite_swa(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_granite(file, keys, config);
  if (keys.has("attention.sliding_window_pattern"))
    read_window_pattern(file, keys, 4, config);
  else
    for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
      config.window_layers.push_back(layer % 4 != 0);
  if (config.sliding_window == 0) config.window_layers.clear();
  if (const GgufArray* pattern = file.array("granite_swa.attention.rope_pattern"))
    config.rope_layers = pattern->booleans;
}

// Windows rotate by a base of their own.
void read_gguf_mellum(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.rope_local_theta = keys.number("rope.freq_base_swa", config.rope_theta);
  read_window_pattern(file, keys, 4, config);
  read_layers_with_routers(file, keys, config);
}

// And by as much of a head as the file says. Of four layers the first sees everything. How wide the gates are
// shows in their tensors.
void read_gguf_laguna(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_gguf_mellum(file, keys, config);
  if (!keys.has("attention.sliding_window_pattern"))
    for (std::size_t layer = 0; layer < config.window_layers.size(); ++layer)
      config.window_layers[layer] = layer % 4 != 0;
  config.rope_local_rotary_size = keys.integer("rope.dimension_count_swa", config.rotary_size);
  const std::int64_t heads = config.layer_sizes.empty() ? config.num_heads : config.layer_sizes[0].num_heads;
  for (const GgufTensor& tensor : file.tensor_list())
    if (tensor.name == "blk.0.attn_gate.weight") config.head_gates = tensor.shape.front() == heads;
}

}  // namespace pagoda
