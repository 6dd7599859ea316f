// Families with Mamba-2 in some or all layers: Granite 4 (instead of attention in most layers), Falcon-H1
// (beside attention in every layer), Nemotron-H (layers that are Mamba-2, attention, or a feed-forward, one
// of them).
#include "models/architecture.h"

namespace pagoda {
namespace {

LinearAttentionConfig mamba2_of(const ModelConfig& config) {
  return {.delta_rule = false,
          .num_heads = config.state.num_heads,
          .num_key_heads = config.state.num_key_heads,
          .key_size = config.state.key_size,
          .value_size = config.state.value_size,
          .num_taps = config.conv_taps,
          .least_step = config.state.least_step,
          .most_step = config.state.most_step,
          .norm_groups = config.state.norm_groups,
          .gate_first = config.state.gate_first,
          .in_factors = config.state.in_factors,
          .input_factor = config.state.input_factor,
          .out_factor = config.state.out_factor};
}

// Layers that are not recurrent have attention.
Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    LayerConfig& layer = decoder->layers[static_cast<std::size_t>(index)];
    if (config.is_recurrent(index)) layer.mixer = mamba2_of(config);
  }
  return decoder;
}

Result<DecoderConfig> describe_falcon(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  const ProductFactors& factors = config.factors;
  for (LayerConfig& layer : decoder->layers) {
    AttentionConfig attention = *layer.attention();
    attention.query_factor = factors.query;
    attention.input_factor = factors.input;
    attention.key_factor = factors.key;
    attention.value_factor = factors.value;
    attention.output_factor = factors.attention_output;
    layer.mixer = ParallelMixersConfig{.attention = attention, .linear = mamba2_of(config)};
    layer.dense()->gate_factor = factors.gate;
    layer.dense()->down_factor = factors.down;
  }
  return decoder;
}

Result<DecoderConfig> describe_nemotron(const ModelConfig& config) {
  auto decoder = describe(config);
  if (!decoder) return decoder.error();
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    LayerConfig& layer = decoder->layers[static_cast<std::size_t>(index)];
    if (MixtureConfig* mixture = layer.mixture())
      mixture->expert.gated = false;
    else
      layer.dense()->gated = false;
    if (config.feed_forward_layers[static_cast<std::size_t>(index)]) {
      layer.mixer = NoMixerConfig{};
      layer.mixer_norms.input = false;
    } else {
      layer.feed_forward = NoFeedForwardConfig{};
      layer.feed_forward_norms.input = false;
    }
  }
  return decoder;
}

WeightNames with_mamba2(WeightNames names, ModelFormat format, const std::string& mixer) {
  if (format == ModelFormat::gguf) {
    names.conv = "ssm_conv1d";
    names.linear_attention = {.in = "ssm_in",
                              .rate = "ssm_a",
                              .step_bias = "ssm_dt.bias",
                              .skip = "ssm_d",
                              .norm = "ssm_norm",
                              .out = "ssm_out"};
    return names;
  }
  names.conv = mixer + ".conv1d";
  names.linear_attention = {.in = mixer + ".in_proj",
                            .rate = mixer + ".A_log",
                            .step_bias = mixer + ".dt_bias",
                            .rate_is_log = true,
                            .skip = mixer + ".D",
                            .norm = mixer + ".norm",
                            .out = mixer + ".out_proj"};
  return names;
}

WeightNames granite_names(ModelFormat format) {
  WeightNames names = with_mamba2(llama_names(format), format, "mamba");
  if (format == ModelFormat::gguf) return names;
  names.experts = granitemoe_experts();
  names.fused_gate_up = "shared_mlp.input_linear";  // of models without experts
  names.down = "shared_mlp.output_linear";
  return names;
}

WeightNames falcon_names(ModelFormat format) {
  WeightNames names = with_mamba2(llama_names(format), format, "mamba");
  if (format == ModelFormat::gguf) return names;
  names.final_norm = "model.final_layernorm";
  names.mlp_norm = "pre_ff_layernorm";
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
  return names;
}

WeightNames nemotron_names(ModelFormat format) {
  WeightNames names = with_mamba2(llama_names(format), format, "mixer");
  if (format == ModelFormat::gguf) {
    names.mlp_norm = names.attention_norm;
    return names;
  }
  names.prefix = "backbone.";
  names.other_prefixes = {"model.", ""};
  names.token_embedding = "backbone.embeddings";
  names.final_norm = "backbone.norm_f";
  names.layer = "backbone.layers.{}.";
  names.attention_norm = names.mlp_norm = "norm";
  names.query = "mixer.q_proj";
  names.key = "mixer.k_proj";
  names.value = "mixer.v_proj";
  names.attention_output = "mixer.o_proj";
  names.up = "mixer.up_proj";
  names.down = "mixer.down_proj";
  names.experts = hf_expert_names("mixer", "shared_experts");
  // All of them in one tensor: without a gate.
  names.experts.back().gate_up = "";
  names.experts.back().up = "mixer.experts.up_proj";
  return names;
}

}  // namespace

const Architecture kGraniteHybrid = {"granitehybrid", describe, granite_names};
const Architecture kFalconH1 = {"falcon-h1", describe_falcon, falcon_names};
const Architecture kNemotronH = {"nemotron_h", describe_nemotron, nemotron_names};
const Architecture kNemotronHMoe = {"nemotron_h_moe", describe_nemotron, nemotron_names};

}  // namespace pagoda
