// OLMo 2 and 3: Llama with norms behind each half instead of before it, and of all query heads and all key
// heads.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  return norms_behind_description(config, QueryKeyNorm::whole);
}

}  // namespace

Result<DecoderConfig> norms_behind_description(const ModelConfig& config, QueryKeyNorm query_key_norm) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.mixer_norms = layer.feed_forward_norms = {.input = false, .branch = true, .sum = false};
    layer.attention()->query_key_norm = query_key_norm;
  }
  return decoder;
}

WeightNames olmo2_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.attention_norm = names.mlp_norm = "";
  names.attention_branch_norm = gguf ? "post_attention_norm" : "post_attention_layernorm";
  names.mlp_branch_norm = gguf ? "post_ffw_norm" : "post_feedforward_layernorm";
  return names;
}

const Architecture kOlmo2 = {"olmo2", describe, olmo2_names};

}  // namespace pagoda
