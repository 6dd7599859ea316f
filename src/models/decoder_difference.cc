#include "models/decoder_difference.h"

#include <algorithm>
#include <tuple>

namespace pagoda {
namespace {

// All members, by structured bindings: one that is added does not compile until it is compared.
auto members(const RopeConfig& of) {
  const auto& [theta, size, scaling, factor, low, high, original, fast, slow, truncate, turned, divisors,
               long_divisors, attention] = of;
  return std::tie(theta, size, scaling, factor, low, high, original, fast, slow, truncate, turned, divisors,
                  long_divisors, attention);
}

auto members(const AttentionConfig& of) {
  const auto& [heads, kv_heads, size, gate, causal, window, chunks, rope, scale, norm, norm_after, softcap,
               sinks, clip, slopes, beta, offset, positions, value_norm, inner_norm, key_is_value, kv_layer,
               query_factor, key_factor, value_factor, output_factor, input_factor] = of;
  return std::tie(heads, kv_heads, size, gate, causal, window, chunks, rope, scale, norm, norm_after, softcap,
                  sinks, clip, slopes, beta, offset, positions, value_norm, inner_norm, key_is_value,
                  kv_layer, query_factor, key_factor, value_factor, output_factor, input_factor);
}

auto members(const DenseFeedForwardConfig& of) {
  const auto& [size, activation, gated, gate_factor, down_factor, inner_norm] = of;
  return std::tie(size, activation, gated, gate_factor, down_factor, inner_norm);
}

auto members(const RoutingRule& of) {
  const auto& [score, count, per_token, groups, used, best_two, renormalize, scale, near] = of;
  return std::tie(score, count, per_token, groups, used, best_two, renormalize, scale, near);
}

template <class T>
bool same(const T& a, const T& b) {
  return members(a) == members(b);
}

bool same(const MixtureConfig& a, const MixtureConfig& b) {
  const auto members = [](const MixtureConfig& of) {
    const auto& [routing, expert, weigh, shared, shared_scale, shared_gate, norm, early, scales] = of;
    return std::pair(std::tie(weigh, shared, shared_scale, shared_gate, norm, early, scales),
                     std::pair(&routing, &expert));
  };
  const auto [plain_a, parts_a] = members(a);
  const auto [plain_b, parts_b] = members(b);
  return plain_a == plain_b && same(*parts_a.first, *parts_b.first) && same(*parts_a.second, *parts_b.second);
}

bool same_mixers(const LayerConfig& a, const LayerConfig& b) {
  return a.attention() != nullptr && b.attention() != nullptr && same(*a.attention(), *b.attention());
}

bool same_feed_forwards(const LayerConfig& a, const LayerConfig& b) {
  if (a.dense() != nullptr && b.dense() != nullptr) return same(*a.dense(), *b.dense());
  return a.mixture() != nullptr && b.mixture() != nullptr && same(*a.mixture(), *b.mixture());
}

// All but mixer and feed-forward.
auto rest(const LayerConfig& of) {
  const auto& [mixer, feed_forward, norm, mixer_norms, feed_forward_norms, branch_eps, residual_scale,
               parallel, output_scale, learned_residual] = of;
  (void)mixer, (void)feed_forward;
  return std::tie(norm, mixer_norms, feed_forward_norms, branch_eps, residual_scale, parallel, output_scale,
                  learned_residual);
}

// All but layers and rotations.
auto rest(const DecoderConfig& of) {
  const auto& [vocabulary, hidden, embedding, positions, layers, embedding_scale, rounded, learned, offset,
               types, ropes, interleaved, embedding_norm, final_norm, layer_input, streams, logit_scale,
               logit_softcap, tied, head] = of;
  (void)layers, (void)ropes, (void)layer_input, (void)streams;
  return std::tie(vocabulary, hidden, embedding, positions, embedding_scale, rounded, learned, offset, types,
                  interleaved, embedding_norm, final_norm, logit_scale, logit_softcap, tied, head);
}

}  // namespace

std::string_view decoder_difference(const DecoderConfig& a, const DecoderConfig& b) {
  if (a.layers.size() != b.layers.size()) return "number of layers";
  if (!std::ranges::equal(a.ropes, b.ropes, [](const auto& x, const auto& y) { return same(x, y); }))
    return "rotation";
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    if (!same_mixers(a.layers[i], b.layers[i])) return "attention";
    if (!same_feed_forwards(a.layers[i], b.layers[i])) return "feed-forwards";
    if (rest(a.layers[i]) != rest(b.layers[i])) return "norms";
  }
  if (a.layer_input || b.layer_input || a.streams || b.streams) return "inputs of layers";
  return rest(a) == rest(b) ? "" : "embedding, context or logits";
}

}  // namespace pagoda
