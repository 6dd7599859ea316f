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

}  // namespace

const Architecture kGemma3 = {"gemma3", describe, gemma2_names};

}  // namespace pagoda
