#include "device_runner/device_support.h"

#include "base/strings.h"
#include "device/kernel_launches.h"

namespace pagoda::device_runner {
namespace {

// The first thing that is not plain, or null.
const char* unknown_of(const AttentionConfig& c) {
  if (!c.causal) return "attention to later tokens";
  if (!c.slopes.empty()) return "ALiBi";
  if (c.temperature_beta != 0) return "queries that are scaled by their position";
  if (c.value_norm || c.key_is_value) return "norms of values, or keys that are values";
  if (!c.has_own_kv()) return "layers that read another layer's keys and values";
  if (c.sinks) return "attention sinks";
  if (c.clip > 0) return "queries, keys and values that are cut off";
  if (c.output_gate != OutputGate::none) return "gates of what is attended";
  if (c.chunks) return "attention in chunks";
  if (c.query_key_norm != QueryKeyNorm::none && c.query_key_norm != QueryKeyNorm::per_head)
    return "norms over several heads, or of heads without weights";
  if (c.query_key_norm != QueryKeyNorm::none && c.norm_after_rope) return "norms behind the rotation";
  if (!device::KernelLaunches::supports_heads(c.num_heads, c.num_kv_heads, c.head_size))
    return "heads of such sizes";
  return nullptr;
}

const char* unknown_of(const LayerConfig& layer) {
  if (layer.attention() == nullptr) return "layers that are no plain attention";
  if (const char* what = unknown_of(*layer.attention())) return what;
  const DenseFeedForwardConfig* const dense = layer.dense();
  if (dense == nullptr) return "mixtures of experts";
  if (!dense->gated || dense->activation != Activation::silu) return "feed-forwards other than gated SiLU";
  if (layer.norm.kind != NormKind::rms) return "layer norms";
  if (layer.mixer_norms != NormPlaces{} || layer.feed_forward_norms != NormPlaces{})
    return "norms behind a layer's halves";
  if (layer.residual_scale != 1 || layer.output_scale) return "scaled branches";
  if (layer.parallel) return "parallel halves";
  if (layer.learned_residual > 0) return "learned residuals";
  return nullptr;
}

const char* unknown_of(const DecoderConfig& c) {
  if (c.learned_positions || c.token_types > 0) return "learned positions";
  if (c.embedding_norm) return "a norm of the embedding";
  if (c.embedding_size != c.hidden_size) return "projections of the embedding";
  if (c.layer_input) return "inputs of layers";
  if (c.streams) return "several residual streams";
  if (c.logit_softcap != 0) return "soft caps of logits";
  if (c.scale_as_embedding) return "scaled embeddings";
  if (!c.final_norm || c.final_norm->kind != NormKind::rms) return "a head without an RMS norm";
  if (!c.head) return "models without a head";
  if (!kv_heads(c)) return "layers whose heads differ";
  for (const LayerConfig& layer : c.layers) {
    if (const char* what = unknown_of(layer)) return what;
    // Adjacent pairs are put apart in the rows of the matrices, not in the norms' weights.
    if (c.interleaved_rows && layer.attention()->query_key_norm != QueryKeyNorm::none)
      return "norms of heads that rotate adjacent pairs";
  }
  return nullptr;
}

}  // namespace

Status check_support(const DecoderConfig& config, std::int32_t max_context) {
  for (const RopeConfig& rope : config.ropes)  // one rotation is for all
    if (depends_on_length(rope) && max_context > rope.original_positions)
      return unimplemented(concat("beyond ", rope.original_positions,
                                  " tokens this model has another rotation, which the device runner does not "
                                  "compute; --max-model-len says so"));
  const char* const what = unknown_of(config);
  if (what == nullptr) return ok_status();
  return unimplemented(concat("this model has ", what, ", which the device runner does not compute"));
}

}  // namespace pagoda::device_runner
