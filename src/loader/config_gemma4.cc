// config.json of Gemma 4. Layers that see everything may have a head size and a number of key-value heads of
// their own: files say so in fields for all of them, or, as transformers 5 writes it, layer by layer.
#include <algorithm>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// 12B, whose defaults are others.
bool is_unified(const ModelConfig& config) { return config.family.starts_with("gemma4_unified"); }

// Which layers have a window: all but every sixth, and never the last.
void read_windows(Fields& fields, ModelConfig& config) {
  config.sliding_window = fields.integer("sliding_window", is_unified(config) ? 1024 : 512);
  if (!read_layer_types(fields, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back((layer + 1) % 6 != 0);
  if (!config.window_layers.empty()) config.window_layers.back() = false;
  finish_windows(fields, config);
}

// What each layer has of its own: {"5": {"head_dim": 512}, ...}
void read_layer_config(Fields& fields, ModelConfig& config) {
  const json::object* layers = fields.object("per_layer_config");
  if (layers == nullptr) return;
  for (std::int32_t index = 0; index < listed_layers(config); ++index) {
    const json::value* layer = layers->if_contains(std::to_string(index));
    if (layer == nullptr) continue;
    if (!layer->is_object()) return fields.fail("per_layer_config", "an object of objects");
    Fields own(layer->get_object(), fields.shared_status());
    LayerSizes& sizes = config.layer_sizes[static_cast<std::size_t>(index)];
    sizes.head_size = own.integer("head_dim", sizes.head_size);
    sizes.num_kv_heads = own.integer("num_key_value_heads", sizes.num_kv_heads);
    for (const auto& [key, value] : layer->get_object())
      if (key != "head_dim" && key != "num_key_value_heads")
        fields.refuse(
            concat("config.json: per_layer_config has '", printable(key), "', which is not supported"));
  }
}

}  // namespace

void read_gemma4(Fields& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 262144);
  config.hidden_size = fields.integer("hidden_size", 2304);
  config.intermediate_size = fields.integer("intermediate_size", 9216);
  config.num_layers = fields.integer("num_hidden_layers", 30);
  config.num_heads = fields.integer("num_attention_heads", 8);
  config.num_kv_heads = fields.integer("num_key_value_heads", 4);
  const std::int32_t local_size = fields.integer("head_dim", 256);
  config.max_positions = fields.integer("max_position_embeddings", is_unified(config) ? 262144 : 131072);
  config.norm_eps = fields.number("rms_norm_eps", 1e-6f);
  config.activation = fields.string("hidden_activation", "gelu_pytorch_tanh");
  config.tie_embeddings = fields.boolean("tie_word_embeddings", true);
  config.attention_bias = fields.boolean("attention_bias", false);
  config.attention_scale = 1;
  config.logit_softcap = fields.number("final_logit_softcapping", 0);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 2;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  // "vision" is about pictures, which are not read.
  if (fields.string("use_bidirectional_attention", "") != "vision")
    fields.only("use_bidirectional_attention", nullptr);

  read_windows(fields, config);
  config.keys_are_values = fields.boolean("attention_k_eq_v", false);
  config.shared_kv_layers = fields.integer("num_kv_shared_layers", 0);
  const bool wide = fields.boolean("use_double_wide_mlp", false);
  const std::int32_t full_size = fields.integer("global_head_dim", 512);
  const std::int32_t full_heads = config.keys_are_values
                                      ? fields.integer("num_global_key_value_heads", config.num_kv_heads)
                                      : config.num_kv_heads;
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer) {
    const bool window = config.sliding_window > 0 &&
                        static_cast<std::size_t>(layer) < config.window_layers.size() &&
                        config.window_layers[static_cast<std::size_t>(layer)];
    const bool shares = layer >= config.num_layers - config.shared_kv_layers;
    const std::int64_t inner = std::int64_t{config.intermediate_size} * (wide && shares ? 2 : 1);
    config.layer_sizes.push_back(
        {.num_kv_heads = window ? config.num_kv_heads : full_heads,
         .head_size = window ? local_size : full_size,
         .intermediate_size = static_cast<std::int32_t>(std::min<std::int64_t>(inner, 1 << 25))});
  }
  read_layer_config(fields, config);
  config.head_size = local_size;  // the largest, which bounds all
  for (const LayerSizes& layer : config.layer_sizes)
    config.head_size = std::max(config.head_size, layer.head_size);
  read_rope_by_layer(fields, config, 1000000.0f, 10000.0f);
  if (fields.find("rope_parameters") == nullptr) config.rope_turned = config.head_size / 8 * 2;

  config.layer_input_size = fields.integer("hidden_size_per_layer_input", 256);
  if (config.layer_input_size > 0 &&
      fields.integer("vocab_size_per_layer_input", 262144) != config.vocab_size)
    fields.refuse("config.json: 'vocab_size_per_layer_input' other than 'vocab_size' is not supported");
  if (!fields.boolean("enable_moe_block", false)) {
    for (const char* unused : {"num_experts", "top_k_experts", "moe_intermediate_size"}) fields.find(unused);
    return;
  }
  config.experts.count = fields.integer("num_experts", 0);
  config.experts.per_token = fields.integer("top_k_experts", 0);
  config.experts.intermediate_size = fields.integer("moe_intermediate_size", 0);
  config.experts.renormalize = true;
  if (config.experts.count < 1) fields.fail("num_experts", "given where mixtures are enabled");
}

}  // namespace pagoda
