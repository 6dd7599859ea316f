// Gated delta nets: Qwen3-Next, Qwen3.5 and later.
#include "models/reading.h"

namespace pagoda {

void use_mixer(Hyperparameters& h, const MixerConfig& mixer, const std::vector<bool>& layers,
               ModelInfo& model) {
  if (layers.size() != model.decoder.layers.size()) return h.corrupt("the kind of every layer must be given");
  for (std::size_t index = 0; index < layers.size(); ++index)
    if (layers[index]) model.decoder.layers[index].mixer = mixer;
}

// Gated delta nets between layers of attention with output gates (Qwen3-Next, Qwen3.5).
void read_delta_net(Hyperparameters& h, ModelInfo& model) {
  offset_norms(model.decoder);
  const LinearAttentionConfig states = {.num_heads = h.integer("linear_num_value_heads", 32),
                                        .num_key_heads = h.integer("linear_num_key_heads", 16),
                                        .key_size = h.integer("linear_key_head_dim", 128),
                                        .value_size = h.integer("linear_value_head_dim", 128),
                                        .num_taps = h.integer("linear_conv_kernel_dim", 4)};
  h.only("attn_output_gate", true);
  h.only("use_sliding_window", false);
  h.only("hidden_act", "silu");  // also used by the convolution
  std::vector<bool> layers = read_layers_called(h, "linear_attention", {"full_attention"}, model);
  const std::int32_t interval = h.integer("full_attention_interval", 4);
  if (layers.empty() && interval < 1) return h.fail("full_attention_interval", "a positive integer");
  if (layers.empty())
    layers = layers_where(model, [&](std::int32_t layer) { return (layer + 1) % interval != 0; });
  use_mixer(h, states, layers, model);
}

void read_gguf_delta_net(Hyperparameters& h, bool tiled_heads, ModelInfo& model) {
  LinearAttentionConfig states = read_state_heads(h);
  states.delta_rule = true;
  states.norm_groups = 0;
  states.tiled_heads = tiled_heads;
  use_mixer(h, states, layers_with_states(h, model), model);
}

void delta_net_shape(DecoderConfig& decoder) {
  norm_heads(decoder);
  gate_outputs(decoder, OutputGate::sigmoid);
}

void delta_net_names(WeightNames& names) {
  names.experts = hf_expert_names({.shared = "shared_expert"});
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
}

void delta_net_gguf_names(WeightNames& names) {
  post_attention_gguf_names(names);
  names.output_gate = "";  // interleaved with the queries; attn_gate belongs to the delta net
}

}  // namespace pagoda
