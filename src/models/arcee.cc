// Arcee: Llama with a plain MLP of squared ReLU.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.dense()->gated = false;
  return decoder;
}

}  // namespace

const Architecture kArcee = {"arcee", describe, llama_names};

}  // namespace pagoda
