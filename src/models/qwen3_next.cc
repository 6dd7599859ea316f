// Qwen3-Next, Qwen3.5, Qwen3.6 and Qwen3.8, dense and with mixtures: a gated delta net in three of four
// layers, in the others Qwen3's attention with a gate for each head's output, and a part of each head that
// rotates.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
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

WeightNames names(ModelFormat format) {
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

}  // namespace

const Architecture kQwen3Next = {"qwen3next", describe, names};
const Architecture kQwen35 = {"qwen35", describe, names};
const Architecture kQwen35Moe = {"qwen35moe", describe, names};

}  // namespace pagoda
