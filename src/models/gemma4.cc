// Gemma 4: Gemma 3 with a head size for layers with a window and one for those that see everything,
// normalised values, scores without a scale, and a scale of each layer. E2B and E4B: inputs of each layer,
// and layers that read the keys and values of earlier ones. 12B and 31B: keys that are values. 26B-A4B: a
// mixture beside each dense feed-forward.
#include <cmath>

#include "models/architecture.h"

namespace pagoda {
namespace {

// The last layer of the same kind that keeps keys and values, of `count` such layers; -1: there is none.
std::int32_t last_of_its_kind(const ModelConfig& config, std::int32_t index, std::int32_t count) {
  std::int32_t layer = count - 1;
  while (layer >= 0 && config.has_window(layer) != config.has_window(index)) --layer;
  return layer;
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  const auto activation = activation_named(config.activation);
  if (config.layer_input_size > 0)
    decoder->layer_input = LayerInputConfig{.size = config.layer_input_size, .activation = *activation};
  // Each kind of layer turns the whole of its heads, or as many frequencies of it as its file says.
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    LayerConfig& layer = decoder->layers[static_cast<std::size_t>(index)];
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.output_scale = true;
    AttentionConfig& attention = *layer.attention();
    attention.query_key_norm = QueryKeyNorm::per_head;
    attention.value_norm = true;
    attention.key_is_value = config.keys_are_values && !config.has_window(index);
    RopeConfig& rope = decoder->ropes[static_cast<std::size_t>(attention.rope)];
    rope.rotary_size = attention.head_size;
    if (MixtureConfig* mixture = layer.mixture()) {
      mixture->router_norm = mixture->expert_scales = true;
      const DenseFeedForwardConfig dense = {
          .intermediate_size = config.layer_sizes.empty()
                                   ? config.intermediate_size
                                   : config.layer_sizes[static_cast<std::size_t>(index)].intermediate_size,
          .activation = *activation,
          .gated = true};
      layer.feed_forward = MixtureBesideDenseConfig{dense, *mixture};
    }
  }
  return share_kv(config, *std::move(decoder));
}

WeightNames names(ModelFormat format) {
  WeightNames names = layer_input_names(format);
  if (format == ModelFormat::gguf) {
    for (ExpertNames& experts : names.experts) {
      experts.router_norm = "ffn_gate_inp.scale";
      experts.expert_scales = "ffn_down_exps.scale";
    }
    names.mixture_norm = "pre_ffw_norm_2";
    names.mixture_branch_norm = "post_ffw_norm_2";
    names.dense_branch_norm = "post_ffw_norm_1";
    names.output_scale = "layer_output_scale.weight";
    return names;
  }
  names.experts = {{.router = "router.proj",
                    .down = "experts.down_proj",
                    .gate_up = "experts.gate_up_proj",
                    .weight = "",
                    .router_norm = "router.scale",
                    .expert_scales = "router.per_expert_scale"}};
  names.mixture_norm = "pre_feedforward_layernorm_2";
  names.mixture_branch_norm = "post_feedforward_layernorm_2";
  names.dense_branch_norm = "post_feedforward_layernorm_1";
  names.output_scale = "layer_scalar";
  return names;
}

}  // namespace

Result<DecoderConfig> share_kv(const ModelConfig& config, DecoderConfig decoder) {
  const std::int32_t own_kv = config.num_layers - config.shared_kv_layers;
  for (std::int32_t index = own_kv; index < config.num_layers; ++index) {
    AttentionConfig& attention = *decoder.layers[static_cast<std::size_t>(index)].attention();
    attention.kv_layer = last_of_its_kind(config, index, own_kv);
    if (attention.kv_layer < 0)
      return corrupt_data(
          "model config: a layer shares keys and values, and no earlier layer of its kind has any");
  }
  return decoder;
}

WeightNames layer_input_names(ModelFormat format) {
  WeightNames names = gemma2_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.input_table = gguf ? "per_layer_token_embd" : "model.embed_tokens_per_layer";
  names.input_projection = gguf ? "per_layer_model_proj" : "model.per_layer_model_projection";
  names.input_norm = gguf ? "per_layer_proj_norm" : "model.per_layer_projection_norm";
  names.input_gate = gguf ? "inp_gate" : "per_layer_input_gate";
  names.input_output = gguf ? "proj" : "per_layer_projection";
  names.input_branch_norm = gguf ? "post_norm" : "post_per_layer_input_norm";
  return names;
}

const Architecture kGemma4 = {"gemma4", describe, names};

}  // namespace pagoda
