// Granite: Llama with scales of the embedding, of what each half adds, of the scores and of the logits.
// MiniCPM 1, 2 and 4 have all but the scores'.
#include "models/architecture.h"

namespace pagoda {
namespace {

// Windows in three of four layers, and a score without a value for each head.
Result<DecoderConfig> describe_swa(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->sinks = true;
  return decoder;
}

WeightNames swa_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.sinks = format == ModelFormat::gguf ? "attn_sinks.weight" : "self_attn.sinks";
  return names;
}

}  // namespace

const Architecture kGraniteSwa = {"granite_swa", describe_swa, swa_names};
const Architecture kGranite = {"granite", common_description, llama_names};
const Architecture kMiniCpm = {"minicpm", common_description, llama_names};

}  // namespace pagoda
