// What encoders have of their own in GGUF metadata.
#include <algorithm>

#include "loader/gguf_families.h"

namespace pagoda {
namespace {

// As wide to each side as half of what the file says, with a rotation of their own.
void read_windows_to_both_sides(const GgufFile& file, Keys& keys, std::int32_t period, ModelConfig& config) {
  config.rope_local_theta = keys.number("rope.freq_base_swa", 10000.0f);
  read_window_pattern(file, keys, period, config);
  if (config.sliding_window > 0) config.sliding_window = config.sliding_window / 2 + 1;
}

}  // namespace

// The file has one row for each type of token.
void read_gguf_bert(const GgufFile& file, Keys&, ModelConfig& config) {
  for (const GgufTensor& tensor : file.tensor_list())
    if (tensor.name == "token_types.weight" && tensor.shape.size() == 2)
      config.token_types =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(tensor.shape.front(), 0, 1 << 16));
}

// Nomic Embed 2; which layers have a mixture shows in the tensors.
void read_gguf_nomic_bert_moe(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.architecture = "nomic-bert plain";
  read_gguf_bert(file, keys, config);
  read_layers_with_routers(file, keys, config);
}

// Of so many layers the first sees everything.
void read_gguf_modern_bert(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.activation = keys.string("hidden_activation", "gelu");
  read_windows_to_both_sides(file, keys, 3, config);
  const GgufArray* const pattern = file.array("modern-bert.attention.sliding_window_pattern");
  if (pattern != nullptr && !pattern->booleans.empty()) return;
  const std::int32_t period = std::max(keys.integer("attention.sliding_window_pattern", 3), 1);
  for (std::size_t layer = 0; layer < config.window_layers.size(); ++layer)
    config.window_layers[layer] = layer % static_cast<std::size_t>(period) != 0;
}

// Gemma 3 that sees to both sides.
void read_gguf_gemma_embedding(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_windows_to_both_sides(file, keys, 6, config);
  config.architecture = "gemma3";
}

}  // namespace pagoda
