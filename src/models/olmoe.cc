// OLMoE: Llama with mixtures, and norms of all query heads and of all key heads.
#include "models/architecture.h"

namespace pagoda {
Result<DecoderConfig> olmoe_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->query_key_norm = QueryKeyNorm::whole;
  return decoder;
}

namespace {

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = hf_expert_names("mlp", "");
  return names;
}

}  // namespace

const Architecture kOlmoe = {"olmoe", olmoe_description, names};

}  // namespace pagoda
