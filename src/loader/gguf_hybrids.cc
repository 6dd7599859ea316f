// How families with recurrent layers write their sizes into GGUF metadata.
#include <algorithm>

#include "loader/gguf_families.h"

namespace pagoda {
namespace {

// Sizes of heads with a matrix as their state; layers that have them have their tensors.
void read_state_heads(const GgufFile& file, Keys& keys, ModelConfig& config) {
  const std::set<std::string_view> names = tensor_names(file);
  for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
    config.recurrent_layers.push_back(names.contains(concat("blk.", layer, ".ssm_out.weight")));
  config.conv_taps = keys.integer("ssm.conv_kernel");
  config.state.num_heads = keys.integer("ssm.time_step_rank");
  config.state.num_key_heads = keys.integer("ssm.group_count");
  config.state.key_size = keys.integer("ssm.state_size");
  const std::int32_t width = keys.integer("ssm.inner_size");
  config.state.value_size = config.state.num_heads > 0 ? width / config.state.num_heads : 0;
  set_state_size(config);
}

// Key-value heads of the layers that have any, which are alike.
void read_kv_heads(Keys& keys, ModelConfig& config) {
  config.layer_sizes.clear();
  for (const std::int32_t heads : keys.of_layers("attention.head_count_kv", config.num_layers))
    config.num_kv_heads = std::max(config.num_kv_heads, heads);
}

void rotate_nothing(ModelConfig& config) {
  config.rotary_size = config.head_size;  // whatever the file says
  config.rope_layers.assign(static_cast<std::size_t>(std::clamp(config.num_layers, 0, 4096)), false);
}

}  // namespace

// Layers without key-value heads are short convolutions.
void read_gguf_lfm2(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.conv_taps = keys.integer("shortconv.l_cache", 3);
  config.state_size = (std::int64_t{config.conv_taps} - 1) * config.hidden_size;
  for (const std::int32_t heads : keys.of_layers("attention.head_count_kv", config.num_layers))
    config.recurrent_layers.push_back(heads == 0);
  read_kv_heads(keys, config);
  if (config.experts.count > 0) read_layers_with_routers(file, keys, config);
}

void read_gguf_granite_hybrid(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_granite(file, keys, config);
  read_state_heads(file, keys, config);
  read_kv_heads(keys, config);
  config.state.norm_groups = config.state.num_key_heads;
  // "Finetuned" says whether attention rotates at all.
  if (!file.boolean(concat(config.architecture, ".rope.scaling.finetuned")).value_or(true))
    rotate_nothing(config);
}

// The gate is behind the norm, where there is one. Converters multiply the embedding and the head by factors
// that the file does not name, so that a head which is the embedding lacks lm_head_multiplier /
// embedding_multiplier.
void read_gguf_falcon_h1(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.logit_scale = keys.number("logit_scale", 1.0f);
  if (!has_tensor(file, "output.weight") && !keys.has("logit_scale"))
    keys.fail(unimplemented(
        "the file has no head (output.weight) and does not say how the embedding is scaled as one; give "
        "config.json's lm_head_multiplier / embedding_multiplier as --override-kv "
        "falcon-h1.logit_scale=float:FACTOR, which is 1 for models without multipliers"));
  read_state_heads(file, keys, config);
  config.state_beside_kv = true;
  config.state.gate_first = false;
  if (has_tensor(file, "blk.0.ssm_norm.weight")) config.state.norm_groups = config.state.num_key_heads;
}

// The file does not say the least step, which is the same in all models of the family.
void read_gguf_nemotron_h(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_state_heads(file, keys, config);
  read_kv_heads(keys, config);
  config.state.norm_groups = config.state.num_key_heads;
  config.state.least_step = 0.001f;
  for (const std::int32_t inner : keys.of_layers("feed_forward_length", config.num_layers)) {
    config.feed_forward_layers.push_back(inner > 0);
    config.intermediate_size = std::max(config.intermediate_size, inner);
  }
  rotate_nothing(config);
  if (config.experts.count > 0) read_layers_with_routers(file, keys, config);
}

// Qwen3.5's value heads of one key head do not stand side by side.
void read_gguf_delta_net(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_state_heads(file, keys, config);
  config.state.tiled_heads = config.architecture != "qwen3next";
  if (config.experts.count == 0) return;
  read_layers_with_routers(file, keys, config);
  config.experts.shared_gate = true;
}

}  // namespace pagoda
