// Muse Glimmer: a normed embedding, norms on both sides of each half, of every query and key head without weights,
// gates of what is attended, windows, which alone rotate, and capped logits.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_norm = NormConfig{.eps = config.norm_eps, .weighted = false};
  decoder->final_norm->weight_offset = 0;
  for (LayerConfig& layer : decoder->layers) {
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.branch_norm_eps = config.branch_norm_eps;
    layer.attention()->output_gate = OutputGate::sigmoid;
    // GGUF files have the scale of queries as the weights of such a norm.
    layer.attention()->query_key_norm =
        config.query_key_norm ? QueryKeyNorm::per_head : QueryKeyNorm::per_head_unweighted;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = gemma2_names(format);
  names.output_gate = format == ModelFormat::gguf ? "attn_gate" : "self_attn.gate_proj";
  return names;
}

}  // namespace

const Architecture kMuseGlimmer = {"muse-glimmer", describe, names};

}  // namespace pagoda
