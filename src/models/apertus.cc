// Apertus: Llama with norms of queries and keys, and xIELU between the two matrices of a plain MLP.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = qwen3_description(config);
  if (!decoder) return decoder.error();
  for (std::size_t index = 0; index < decoder->layers.size(); ++index) {
    XieluConfig curve = {.intermediate_size = decoder->layers[index].dense()->intermediate_size};
    if (!config.xielu.empty()) {
      const XieluNumbers& numbers = config.xielu[index];
      curve.alpha_p = numbers.alpha_p;
      curve.alpha_n = numbers.alpha_n;
      curve.beta = numbers.beta;
      curve.eps = numbers.eps;
    }
    decoder->layers[index].feed_forward = curve;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.gate = "";
  if (format == ModelFormat::gguf) return names;  // whose curves stand in its metadata
  names.attention_norm = "attention_layernorm";
  names.mlp_norm = "feedforward_layernorm";
  names.curve = "mlp.act_fn";
  return names;
}

}  // namespace

const Architecture kApertus = {"apertus", describe, names};

}  // namespace pagoda
