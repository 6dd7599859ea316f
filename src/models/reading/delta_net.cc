// Gated delta nets: Qwen3-Next, Qwen3.5 and later.
#include "models/reading.h"

namespace pagoda {
// Layers called `recurrent` keep a state, those of full attention do not. Empty: not told.
std::vector<bool> recurrent_layers(Hyperparameters& h, std::string_view recurrent,
                                   const ModelConfig& config) {
  std::vector<bool> layers;
  const json::value* types = h.find("layer_types");
  if (types == nullptr) return layers;
  const json::array* list = types->if_array();
  if (list == nullptr || static_cast<std::int64_t>(list->size()) != config.num_layers) {
    h.fail("layer_types", "a list with one entry for each layer");
    return layers;
  }
  for (const json::value& type : *list) {
    const bool keeps_state = type.is_string() && std::string_view(type.get_string()) == recurrent;
    if (!keeps_state && type != "full_attention")
      h.refuse(concat("config.json: layer type ", show(type), " is not supported; supported: ", recurrent,
                      ", full_attention"));
    layers.push_back(keeps_state);
  }
  return layers;
}

// Gated delta nets between attention with gates for its outputs (Qwen3-Next, Qwen3.5).
void read_delta_net(Hyperparameters& h, ModelConfig& config) {
  config.norm_weight_offset = 1;
  config.conv_taps = h.integer("linear_conv_kernel_dim", 4);
  config.state = {.num_heads = h.integer("linear_num_value_heads", 32),
                  .num_key_heads = h.integer("linear_num_key_heads", 16),
                  .key_size = h.integer("linear_key_head_dim", 128),
                  .value_size = h.integer("linear_value_head_dim", 128)};
  set_state_size(config);
  h.only("attn_output_gate", true);
  h.only("use_sliding_window", false);
  h.only("hidden_act", "silu");  // the convolution has it, too
  config.recurrent_layers = recurrent_layers(h, "linear_attention", config);
  const std::int32_t interval = h.integer("full_attention_interval", 4);
  if (!config.recurrent_layers.empty()) return;
  if (interval < 1) return h.fail("full_attention_interval", "a positive integer");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.recurrent_layers.push_back((layer + 1) % interval != 0);
}

void read_gguf_delta_net(Hyperparameters& h, ModelConfig& config) {
  read_state_heads(h, config);
  if (config.experts.count == 0) return;
  read_layers_with_routers(h, config);
  config.experts.shared_gate = true;
}

Result<DecoderConfig> delta_net_description(const ModelConfig& config) {
  auto decoder = qwen3_description(config);
  if (!decoder) return decoder.error();
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    LayerConfig& layer = decoder->layers[static_cast<std::size_t>(index)];
    layer.attention()->output_gate = OutputGate::sigmoid;
    if (config.is_recurrent(index))
      layer.mixer = LinearAttentionConfig{.num_heads = config.state.num_heads,
                                          .num_key_heads = config.state.num_key_heads,
                                          .key_size = config.state.key_size,
                                          .value_size = config.state.value_size,
                                          .num_taps = config.conv_taps,
                                          .tiled_heads = config.state.tiled_heads};
  }
  return decoder;
}

WeightNames delta_net_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.mlp_norm = "post_attention_norm";
    names.conv = "ssm_conv1d";
    names.linear_attention = {.qkv = "attn_qkv",
                              .gate = "attn_gate",
                              .weight = "ssm_beta",
                              .decay = "ssm_alpha",
                              .by_key_head = "ssm_in",
                              .gates_by_key_head = "ssm_ba",
                              .rate = "ssm_a",
                              .step_bias = "ssm_dt.bias",
                              .norm = "ssm_norm",
                              .out = "ssm_out"};
    return names;
  }
  names.experts = hf_expert_names("mlp", "shared_expert");
  names.conv = "linear_attn.conv1d";
  names.linear_attention = {.qkv = "linear_attn.in_proj_qkv",
                            .gate = "linear_attn.in_proj_z",
                            .weight = "linear_attn.in_proj_b",
                            .decay = "linear_attn.in_proj_a",
                            .by_key_head = "linear_attn.in_proj_qkvz",
                            .gates_by_key_head = "linear_attn.in_proj_ba",
                            .rate = "linear_attn.A_log",
                            .step_bias = "linear_attn.dt_bias",
                            .rate_is_log = true,
                            .norm = "linear_attn.norm",
                            .out = "linear_attn.out_proj"};
  return names;
}

}  // namespace pagoda
