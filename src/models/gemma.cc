// Gemma 1 and 2: Llama with a scaled embedding and GELU; Gemma 2 with norms on both sides of each half, soft
// caps, and a window in every second layer.
#include <cmath>

#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe_gemma(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  return decoder;
}

Result<DecoderConfig> describe_gemma2(const ModelConfig& config) {
  auto decoder = describe_gemma(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers)
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
  return decoder;
}

}  // namespace

WeightNames gemma2_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.attention_branch_norm = "post_attention_norm";
    names.mlp_branch_norm = "post_ffw_norm";
    return names;
  }
  names.attention_branch_norm = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.mlp_branch_norm = "post_feedforward_layernorm";
  return names;
}

const Architecture kGemma = {"gemma", describe_gemma, llama_names};
const Architecture kGemma2 = {"gemma2", describe_gemma2, gemma2_names};

}  // namespace pagoda
