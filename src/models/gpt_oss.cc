// gpt-oss: Llama with mixtures in every layer, a score without a value for each head, windows in every second
// layer, biases everywhere, and a gated product whose factors are cut off. Source: arXiv 2508.10925.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.attention()->sinks = true;
    if (MixtureConfig* mixture = layer.mixture()) mixture->expert.activation = Activation::clamped_silu;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.mlp_norm = "post_attention_norm";
    names.sinks = "attn_sinks.weight";
    return names;
  }
  names.sinks = "self_attn.sinks";
  const ExpertNames values = {.router = "mlp.router",
                              .down = "mlp.experts.down_proj",
                              .gate_up = "mlp.experts.gate_up_proj",
                              .weight = "",
                              .bias = "_bias",
                              .transposed = true,
                              .by_turns = true};
  ExpertNames blocks = values;
  blocks.weight = "_blocks";
  blocks.scales = "_scales";
  blocks.transposed = false;
  names.experts = {blocks, values};
  return names;
}

}  // namespace

const Architecture kGptOss = {"gpt-oss", describe, names};

}  // namespace pagoda
