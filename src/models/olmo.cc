// OLMo 1: Llama with layer norms that have no weights, and queries, keys and values that may be cut off.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = layer_norm_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.norm.weighted = false;
  decoder->final_norm->weighted = false;
  return decoder;
}

}  // namespace

const Architecture kOlmo = {"olmo", describe, llama_names};

}  // namespace pagoda
