// EXAONE 4: Llama with norms behind each half and of every query and key head; where some layers have
// windows, the others do not rotate.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.mixer_norms = layer.feed_forward_norms = {.input = false, .branch = true, .sum = false};
    layer.attention()->query_key_norm = QueryKeyNorm::per_head;
  }
  return decoder;
}

}  // namespace

const Architecture kExaone4 = {"exaone4", describe, olmo2_names};

}  // namespace pagoda
