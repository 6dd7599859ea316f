// GGUF metadata of Gemma's generations.
#include <algorithm>
#include <cmath>

#include "loader/gguf_families.h"

namespace pagoda {

void read_gguf_gemma2(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.attention_softcap = keys.number("attn_logit_softcapping", 0.0f);
  config.logit_softcap = keys.number("final_logit_softcapping", 0.0f);
  read_window_pattern(file, keys, 2, config);
  // The file does not say that the 27B model, alone with 46 layers, divides by its width a head.
  if (config.num_layers == 46 && config.num_heads > 0)
    config.attention_scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
}

void read_gguf_gemma3(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.rope_local_theta = keys.number("rope.freq_base_swa", 10000.0f);
  read_window_pattern(file, keys, 6, config);
  // The file does not say that the 27B model, alone with 62 layers, divides by its width a head.
  if (config.num_layers == 62 && config.num_heads > 0)
    config.attention_scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
}

// Ranks and tables are as large as their tensors.
void read_gguf_gemma3n(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.attention_scale = 1;
  config.logit_softcap = keys.number("final_logit_softcapping", 30.0f);
  config.rope_local_theta = keys.number("rope.freq_base_swa", 10000.0f);
  config.shared_kv_layers = keys.integer("attention.shared_kv_layers", 15);
  config.layer_input_size = keys.integer("embedding_length_per_layer_input");
  config.num_streams = keys.integer("altup.num_inputs");
  config.scaled_streams = true;
  if (keys.integer("altup.active_idx", 0) != 0)
    keys.fail(unimplemented("GGUF option 'altup.active_idx' other than 0 is not supported"));
  for (const GgufTensor& tensor : file.tensor_list()) {
    const auto rows = [&](std::int32_t most) {
      return static_cast<std::int32_t>(std::clamp<std::int64_t>(tensor.shape.front(), 1, most));
    };
    if (tensor.name == "per_layer_token_embd.weight") config.layer_input_rows = rows(1 << 24);
    if (tensor.name == "blk.0.laurel_l.weight") config.learned_residual = rows(1 << 16);
  }
  if (const GgufArray* cutoffs = file.array("gemma3n.activation_sparsity_scale"))
    for (const double cutoff : cutoffs->floats) config.sparse_cutoffs.push_back(static_cast<float>(cutoff));
  read_window_pattern(file, keys, 5, config);
}

// Layers with a window have a head size of their own; which have keys that are values shows in the tensors.
void read_gguf_gemma4(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.attention_scale = 1;
  config.logit_softcap = keys.number("final_logit_softcapping", 0.0f);
  config.rope_local_theta = keys.number("rope.freq_base_swa", 10000.0f);
  config.shared_kv_layers = keys.integer("attention.shared_kv_layers", 0);
  config.layer_input_size = keys.integer("embedding_length_per_layer_input", 0);
  config.experts.layers.clear();  // all have one beside their dense feed-forward
  read_window_pattern(file, keys, 6, config);
  const std::int32_t local_size = keys.integer("attention.key_length_swa", config.head_size);
  if (keys.integer("attention.value_length_swa", local_size) != local_size)
    keys.fail(unimplemented("value heads of another size than key heads are not supported"));
  const std::vector<std::int32_t> kv_heads = keys.of_layers("attention.head_count_kv", config.num_layers);
  const std::vector<std::int32_t> inner = keys.of_layers("feed_forward_length", config.num_layers);
  if (!keys.status().ok()) return;
  if (!config.window_layers.empty() && config.window_layers.size() != kv_heads.size())
    return keys.fail(corrupt_data("GGUF metadata 'attention.sliding_window_pattern' is not of every layer"));
  const std::set<std::string_view> names = tensor_names(file);
  config.layer_sizes.clear();
  for (std::size_t layer = 0; layer < kv_heads.size(); ++layer) {
    const bool window = config.has_window(static_cast<std::int32_t>(layer));
    config.layer_sizes.push_back({.num_kv_heads = kv_heads[layer],
                                  .head_size = window ? local_size : config.head_size,
                                  .intermediate_size = inner[layer]});
    if (!window && names.contains(concat("blk.", layer, ".attn_k.weight")) &&
        !names.contains(concat("blk.", layer, ".attn_v.weight")))
      config.keys_are_values = true;
  }
  // The rotation of the larger heads is in the file; the smaller are turned whole.
  config.head_size = std::max(config.head_size, local_size);
}

}  // namespace pagoda
