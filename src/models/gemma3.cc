// Gemma 3: Llama with norms on both sides of each half, normalised queries and keys, GELU, a scaled
// embedding, and windows: of six layers, five see the last tokens alone and rotate by a base of their own.
#include <cmath>

#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  for (LayerConfig& layer : decoder->layers) {
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.attention()->query_key_norm = QueryKeyNorm::per_head;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.attention_branch_norm = "post_attention_norm";
    names.mlp_branch_norm = "post_ffw_norm";
    return names;
  }
  names.attention_branch_norm = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.mlp_branch_norm = "post_feedforward_layernorm";
  // The language model inside of the one that sees pictures.
  names.other_prefixes.insert(names.other_prefixes.end(), {"model.language_model.", "language_model.model."});
  return names;
}

}  // namespace

const Architecture kGemma3 = {"gemma3", describe, names};

}  // namespace pagoda
