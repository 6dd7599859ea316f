// Llama 4 (text): Llama with mixtures of which a token takes one expert and a shared one, and its weight lies
// on what that expert reads; norms without weights of every query and key head behind the rotation. Every
// fourth layer does not rotate; its queries grow with the position instead. The others see their chunk of
// 8192 tokens alone.
#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    AttentionConfig& attention = *layer.attention();
    attention.chunks = attention.sliding_window > 0;
    if (attention.rope == kNoRope) {
      attention.temperature_offset = 1;
    } else {
      attention.temperature_beta = 0;
      if (config.query_key_norm) attention.query_key_norm = QueryKeyNorm::per_head_unweighted;
      attention.norm_after_rope = true;
    }
    if (MixtureConfig* mixture = layer.mixture()) mixture->weigh_input = true;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
  names.experts = {{.router = "feed_forward.router",
                    .down = "feed_forward.experts.down_proj",
                    .gate_up = "feed_forward.experts.gate_up_proj",
                    .weight = "",
                    .transposed = true,
                    .shared_gate = "feed_forward.shared_expert.gate_proj",
                    .shared_up = "feed_forward.shared_expert.up_proj",
                    .shared_down = "feed_forward.shared_expert.down_proj"}};
  return names;
}

}  // namespace

const Architecture kLlama4 = {"llama4", describe, names};

}  // namespace pagoda
