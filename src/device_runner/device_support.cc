#include "device_runner/device_support.h"

#include <string_view>

#include "base/strings.h"
#include "device/kernel_launches.h"
#include "device/layer_launches.h"

namespace pagoda::device_runner {
namespace {

// The first thing that is not there, or null.
const char* unknown_of(const AttentionConfig& c, const DecoderConfig& decoder) {
  if (!c.causal) return "attention to later tokens";
  if (c.output_gate != OutputGate::none) return "gates of what is attended";
  if (c.value_norm || c.key_is_value) return "norms of values, or keys that are values";
  if (!c.has_own_kv()) return "layers that read another layer's keys and values";
  if (c.clip > 0) return "queries, keys and values that are cut off";
  const bool one_head =
      c.query_key_norm == QueryKeyNorm::per_head || c.query_key_norm == QueryKeyNorm::per_head_unweighted;
  if (c.query_key_norm != QueryKeyNorm::none && c.norm_after_rope &&
      (!one_head ||
       (c.rope != kNoRope && decoder.ropes[static_cast<std::size_t>(c.rope)].attention_factor != 1)))
    return "norms of several heads behind the rotation";
  // Rows of matrices are put in order as they are loaded, and each head's own norms; not those of all heads.
  if (decoder.interleaved_rows && c.rope != kNoRope &&
      (c.query_key_norm == QueryKeyNorm::per_head || c.query_key_norm == QueryKeyNorm::whole))
    return "norms of heads that rotate adjacent pairs";
  if (!device::KernelLaunches::supports_heads(c.num_heads, c.num_kv_heads, c.head_size))
    return "heads of such sizes";
  return nullptr;
}

const char* unknown_of(const LayerConfig& layer, const DecoderConfig& decoder) {
  if (layer.attention() == nullptr) return "layers that are no plain attention";
  if (const char* what = unknown_of(*layer.attention(), decoder)) return what;
  if (const MixtureConfig* const mixture = layer.mixture()) {
    if (mixture->shared_scale != 1) return "shared experts that are averaged with the others";
    if (mixture->routes_early) return "routers that read what enters the layer";
    if (mixture->router_norm || mixture->expert_scales) return "routers with norms or scales of their own";
    if (mixture->routing.score == RouterScore::sparse_mixer)
      return "routers that draw one expert after the other";
    if (!device::KernelLaunches::supports_experts(mixture->routing.num_experts)) return "so many experts";
  } else if (layer.dense() == nullptr) {
    return "feed-forwards other than dense ones and mixtures";
  }
  if (layer.parallel && !layer.feed_forward_norms.input) return "parallel halves without a norm before them";
  if (layer.output_scale) return "scaled layers";
  if (layer.learned_residual > 0) return "learned residuals";
  if (layer.branch_norm_eps > 0) return "norms behind halves with an epsilon of their own";
  return nullptr;
}

const char* unknown_of(const DecoderConfig& c) {
  if (c.token_types > 0) return "types of tokens";
  if (c.embedding_size != c.hidden_size) return "projections of the embedding";
  if (c.layer_input) return "inputs of layers";
  if (c.streams) return "several residual streams";
  if (!c.head) return "no head";
  for (const LayerConfig& layer : c.layers)
    if (const char* what = unknown_of(layer, c)) return what;
  return kv_heads(c) ? nullptr : "layers whose heads differ";
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

namespace {

// The heads of a layer that keep a matrix each, or null.
const LinearAttentionConfig* linear_of(const LayerConfig& layer) {
  if (const auto* both = std::get_if<ParallelMixersConfig>(&layer.mixer)) return &both->linear;
  return std::get_if<LinearAttentionConfig>(&layer.mixer);
}

}  // namespace

Status check_plain_support(const DecoderConfig& config) {
  const auto refused = [](std::string_view what) {
    return unimplemented(concat("this model has ", what, ", which the device runner does not compute"));
  };
  for (const LayerState& state : layer_states(config))
    if ((state.latent_size > 0 ? state.latent_size : state.head_size) > device::kMostValueSize)
      return refused("heads of such sizes");
  for (const LayerConfig& layer : config.layers) {
    const LinearAttentionConfig* const linear = linear_of(layer);
    if (linear != nullptr && !device::LayerLaunches::supports_states(linear->key_size))
      return refused("states of such sizes");
    if (layer.attention() != nullptr && !layer.attention()->causal)
      return refused("attention to later tokens");
    if (layer.mixture() != nullptr &&
        !device::KernelLaunches::supports_experts(layer.mixture()->routing.num_experts))
      return refused("so many experts");
  }
  if (!config.head) return refused("no head");
  return ok_status();
}

}  // namespace pagoda::device_runner
