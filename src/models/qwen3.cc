// Qwen3: Llama with an RMS norm of every query and key head before rotation.
#include "models/architecture.h"

namespace pagoda {

Result<DecoderConfig> qwen3_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->query_key_norm = QueryKeyNorm::per_head;
  return decoder;
}

const Architecture kQwen3 = {"qwen3", qwen3_description, llama_names};

}  // namespace pagoda
