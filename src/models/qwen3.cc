// Qwen3: Llama with an RMS norm of every query and key head before rotation.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->query_key_norm = QueryKeyNorm::per_head;
  return decoder;
}

}  // namespace

const Architecture kQwen3 = {"qwen3", describe, llama_names};
const Architecture kQwen3Vl = {"qwen3vl", describe,
                               llama_names};  // as GGUF calls the text part of the one that sees

}  // namespace pagoda
