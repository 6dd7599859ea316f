// Hunyuan (dense): Llama with an RMS norm of every query and key head behind the rotation.
#include "models/architecture.h"

namespace pagoda {

Result<DecoderConfig> hunyuan_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.attention()->query_key_norm = QueryKeyNorm::per_head;
    layer.attention()->norm_after_rope = true;
  }
  return decoder;
}

WeightNames hunyuan_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.query_norm = "self_attn.query_layernorm";
  names.key_norm = "self_attn.key_layernorm";
  return names;
}

const Architecture kHunyuanDense = {"hunyuan-dense", hunyuan_description, hunyuan_names};

}  // namespace pagoda
