#include "models/quantize/decoder_difference.h"

namespace pagoda {

std::string_view decoder_difference(const DecoderConfig& a, const DecoderConfig& b) {
  if (a.layers.size() != b.layers.size()) return "number of layers";
  if (a.ropes != b.ropes) return "rotation";
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const LayerConfig &one = a.layers[i], &other = b.layers[i];
    const bool attends =
        one.attention() != nullptr || std::holds_alternative<LatentAttentionConfig>(one.mixer);
    if (one.mixer != other.mixer) return attends ? "attention" : "states";
    const bool known = one.dense() != nullptr || one.mixture() != nullptr ||
                       std::holds_alternative<NoFeedForwardConfig>(one.feed_forward);
    if (!known || one.feed_forward != other.feed_forward) return "feed-forwards";
    if (one != other) return "norms";
  }
  if (a.layer_input || b.layer_input || a.streams || b.streams) return "per-layer inputs";
  return a == b ? "" : "embedding, context or logits";
}

}  // namespace pagoda
