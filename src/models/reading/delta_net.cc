// Gated delta nets: Qwen3-Next, Qwen3.5 and later.
#include "models/reading.h"

namespace pagoda {

void use_mixer(Hyperparameters& h, const MixerConfig& mixer, const std::vector<bool>& layers,
               ModelInfo& model) {
  if (layers.size() != model.decoder.layers.size()) return h.corrupt("the kind of every layer must be given");
  for (std::size_t index = 0; index < layers.size(); ++index)
    if (layers[index]) model.decoder.layers[index].mixer = mixer;
}

// Gated delta nets between attention with gates for its outputs (Qwen3-Next, Qwen3.5).
void read_delta_net(Hyperparameters& h, ModelInfo& model) {
  offset_norms(model.decoder);
  const LinearAttentionConfig states = {.num_heads = h.integer("linear_num_value_heads", 32),
                                        .num_key_heads = h.integer("linear_num_key_heads", 16),
                                        .key_size = h.integer("linear_key_head_dim", 128),
                                        .value_size = h.integer("linear_value_head_dim", 128),
                                        .num_taps = h.integer("linear_conv_kernel_dim", 4)};
  h.only("attn_output_gate", true);
  h.only("use_sliding_window", false);
  h.only("hidden_act", "silu");  // the convolution has it, too
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

void delta_net_names(WeightNames& names, bool gguf) {
  if (gguf)
    names.mlp_norm = "post_attention_norm";
  else
    names.experts = hf_expert_names({.shared = "shared_expert"});
  names.conv = gguf ? "ssm_conv1d" : "linear_attn.conv1d";
  names.linear_attention = {.qkv = gguf ? "attn_qkv" : "linear_attn.in_proj_qkv",
                            .gate = gguf ? "attn_gate" : "linear_attn.in_proj_z",
                            .weight = gguf ? "ssm_beta" : "linear_attn.in_proj_b",
                            .decay = gguf ? "ssm_alpha" : "linear_attn.in_proj_a",
                            .by_key_head = gguf ? "ssm_in" : "linear_attn.in_proj_qkvz",
                            .gates_by_key_head = gguf ? "ssm_ba" : "linear_attn.in_proj_ba",
                            .rate = gguf ? "ssm_a" : "linear_attn.A_log",
                            .step_bias = gguf ? "ssm_dt.bias" : "linear_attn.dt_bias",
                            .rate_is_log = !gguf,
                            .norm = gguf ? "ssm_norm" : "linear_attn.norm",
                            .out = gguf ? "ssm_out" : "linear_attn.out_proj"};
}

}  // namespace pagoda
