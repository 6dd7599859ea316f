// Plausibility checks of a model's description, before any weight is read.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "kernels/causal_conv.h"
#include "models/model_info.h"

namespace pagoda {
namespace {

constexpr std::int64_t kLarge = std::int64_t{1} << 24;

Status wrong(std::string_view what) { return corrupt_data(concat("model config: ", what)); }

Status check_bound(std::string_view name, std::int64_t value, std::int64_t limit) {
  if (value >= 1 && value <= limit) return ok_status();
  return corrupt_data(concat("the model's ", name, " is ", value, ", not between 1 and ", limit));
}

Status check_size(std::int64_t size) {
  if (size <= 0) return wrong("a size is missing or not positive");
  if (size > 1 << 28) return wrong("a size is absurdly large");
  return ok_status();
}

Status check_positive(std::string_view name, float value) {
  if (std::isfinite(value) && value > 0) return ok_status();
  return corrupt_data(concat("the model's ", name, " is ", value, ", not a positive number"));
}

// 0: no limit.
Status check_limit(float value) {
  if (std::isfinite(value) && value >= 0) return ok_status();
  return corrupt_data(concat("a soft cap, limit or slope of the model is ", value));
}

Status check_part(const DecoderConfig& decoder, const AttentionConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_bound("number of attention heads", c.num_heads, 1 << 16));
  PAGODA_RETURN_IF_ERROR(check_bound("number of key/value heads", c.num_kv_heads, 1 << 16));
  PAGODA_RETURN_IF_ERROR(check_bound("head size", c.head_size, 1 << 16));
  if (std::int64_t{c.num_heads} * c.head_size > kLarge)
    return corrupt_data(concat(c.num_heads, " heads of size ", c.head_size, " are not plausible"));
  // Keeps layers * heads * head size * positions * 8 bytes (a full KV cache) inside 64 bits.
  if (std::int64_t{decoder.num_layers()} * c.num_heads * c.head_size > 1 << 28)
    return corrupt_data(concat(decoder.num_layers(), " layers of ", c.num_heads, " heads of size ",
                               c.head_size, " are not plausible"));
  if (c.num_heads % c.num_kv_heads != 0)
    return corrupt_data(concat("the number of attention heads, ", c.num_heads,
                               ", is not a multiple of the number of key/value heads, ", c.num_kv_heads));
  PAGODA_RETURN_IF_ERROR(check_positive("attention scale", c.scale));
  for (const float limit : {c.softcap, c.clip, c.temperature_beta})
    PAGODA_RETURN_IF_ERROR(check_limit(limit));
  if (c.rope == kNoRope) return ok_status();
  const std::int32_t rotary = decoder.ropes[static_cast<std::size_t>(c.rope)].rotary_size;
  if (rotary < 1 || rotary > c.head_size || rotary % 2 != 0)
    return corrupt_data(
        concat("the rotary dimension ", rotary, " does not fit a head size of ", c.head_size));
  return ok_status();
}

Status check_part(const DecoderConfig& decoder, const LatentAttentionConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_bound("number of attention heads", c.num_heads, 1 << 16));
  constexpr std::int32_t kWidest = 1 << 16;
  for (const std::int32_t size : {c.latent_size, c.nope_size, c.rope_size, c.value_size})
    if (size < 1 || size > kWidest)
      return corrupt_data(
          concat("a size of the model's latent attention is ", size, ", not between 1 and ", kWidest));
  if (c.query_rank < 0 || c.query_rank > 1 << 20)
    return corrupt_data(concat("the rank of the model's queries is ", c.query_rank));
  if (std::int64_t{decoder.num_layers()} * (c.num_heads + 1) * (c.row_size() + c.value_size) > 1 << 30)
    return corrupt_data(
        concat(c.num_heads, " heads over rows of ", c.row_size(), " elements are not plausible"));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_heads + 1} * (c.latent_size + c.query_size())));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_heads} * (c.nope_size + c.value_size)));
  PAGODA_RETURN_IF_ERROR(check_positive("attention scale", c.scale));
  PAGODA_RETURN_IF_ERROR(check_limit(c.temperature_beta));
  if (decoder.ropes[static_cast<std::size_t>(c.rope)].rotary_size != c.rope_size || c.rope_size % 2 != 0)
    return wrong(concat(c.rope_size, " rotated elements of a row of latent attention"));
  return ok_status();
}

Status check_taps(std::int32_t taps) {
  if (taps >= 2 && taps <= kMaxConvTaps) return ok_status();
  return wrong(concat("a convolution over ", taps, " tokens, not 2 to ", kMaxConvTaps));
}

Status check_part(const DecoderConfig& decoder, const ShortConvConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_taps(c.num_taps));
  if (c.num_channels != decoder.hidden_size) return wrong("a short convolution of another width");
  return ok_status();
}

Status check_part(const DecoderConfig&, const LinearAttentionConfig& c) {
  for (const std::int32_t size : {c.num_heads, c.num_key_heads, c.key_size, c.value_size})
    PAGODA_RETURN_IF_ERROR(check_bound("size of heads with states", size, 1 << 16));
  if (c.num_heads % c.num_key_heads != 0)
    return wrong(
        concat(c.num_heads, " heads with states are not a multiple of ", c.num_key_heads, " key heads"));
  PAGODA_RETURN_IF_ERROR(check_taps(c.num_taps));
  if (c.norm_groups < 0 || (c.norm_groups > 0 && c.num_heads % c.norm_groups != 0))
    return wrong(concat(c.norm_groups, " groups of ", c.num_heads, " heads' norms"));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_heads} * c.value_size));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_key_heads} * c.key_size));
  return check_size(std::int64_t{c.key_size} * c.value_size);
}

Status check_part(const DecoderConfig&, const SelectiveScanConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_bound("number of channels with states", c.num_channels, 1 << 20));
  PAGODA_RETURN_IF_ERROR(check_bound("size of channels' states", c.state_size, 1 << 12));
  PAGODA_RETURN_IF_ERROR(check_bound("rank of its steps", c.step_rank, 1 << 16));
  PAGODA_RETURN_IF_ERROR(check_taps(c.num_taps));
  PAGODA_RETURN_IF_ERROR(check_positive("norm epsilon of steps", c.norm_eps));
  return check_size(std::int64_t{c.num_channels} * c.state_size);
}

Status check_part(const DecoderConfig& decoder, const ParallelMixersConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_part(decoder, c.attention));
  return check_part(decoder, c.linear);
}

Status check_part(const DecoderConfig&, const NoMixerConfig&) { return ok_status(); }
Status check_part(const DecoderConfig&, const NoFeedForwardConfig&) { return ok_status(); }

template <class FeedForward>
Status check_part(const DecoderConfig&, const FeedForward& c) {
  return check_bound("feed-forward size", c.intermediate_size, kLarge);
}

Status check_part(const DecoderConfig& decoder, const MixtureConfig& c) {
  constexpr std::int32_t kMaxExperts = 65536;
  const RoutingRule& rule = c.routing;
  PAGODA_RETURN_IF_ERROR(check_bound("number of experts", rule.num_experts, kMaxExperts));
  if (rule.num_groups < 1 || rule.groups_used < 1 || rule.groups_used > rule.num_groups ||
      rule.num_experts % rule.num_groups != 0)
    return corrupt_data(concat(rule.num_experts, " experts cannot be in ", rule.num_groups,
                               " groups of which a token uses ", rule.groups_used));
  const std::int32_t choice = rule.num_experts / rule.num_groups * rule.groups_used;
  if (rule.per_token < 1 || rule.per_token > choice)
    return corrupt_data(concat("a token cannot use ", rule.per_token, " of ", choice, " experts"));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{rule.per_token} * decoder.hidden_size));
  if (c.expert.intermediate_size < 1 || c.expert.intermediate_size > kLarge ||
      c.shared_intermediate_size < 0 || c.shared_intermediate_size > kLarge)
    return corrupt_data(concat("experts of ", c.expert.intermediate_size, " features and a shared one of ",
                               c.shared_intermediate_size, " are not plausible"));
  PAGODA_RETURN_IF_ERROR(check_positive("scale of its shared expert", c.shared_scale));
  PAGODA_RETURN_IF_ERROR(check_positive("scale of experts", rule.scale));
  return check_limit(rule.near);
}

Status check_part(const DecoderConfig& decoder, const MixtureBesideDenseConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_part(decoder, c.dense));
  return check_part(decoder, c.mixture);
}

Status check_rope(const RopeConfig& c) {
  const struct {
    const char* name;
    float value;
  } positives[] = {{"rope theta", c.theta},
                   {"rope scaling factor", c.factor},
                   {"rope low_freq_factor", c.low_freq_factor},
                   {"rope high_freq_factor", c.high_freq_factor},
                   {"rope attention factor", c.attention_factor},
                   {"rope beta_fast", c.beta_fast},
                   {"rope beta_slow", c.beta_slow}};
  for (const auto& [name, value] : positives) PAGODA_RETURN_IF_ERROR(check_positive(name, value));
  if (c.scaling == RopeScaling::llama3 &&
      (c.original_positions < 1 || c.high_freq_factor <= c.low_freq_factor))
    return corrupt_data(
        "llama3 rope scaling needs original_max_position_embeddings and high_freq_factor > low_freq_factor");
  if (c.scaling == RopeScaling::yarn && (c.original_positions < 1 || c.theta <= 1))
    return corrupt_data("yarn rope scaling needs original_max_position_embeddings and a rope theta above 1");
  for (const std::vector<float>* divisors : {&c.divisors, &c.long_divisors}) {
    const bool positive = std::ranges::all_of(*divisors, [](float f) { return std::isfinite(f) && f > 0; });
    if (!divisors->empty() && (!positive || divisors->size() != static_cast<std::size_t>(c.rotary_size / 2)))
      return corrupt_data("longrope needs a positive factor for each rotated pair");
  }
  if (c.turned < 0 || c.turned > c.rotary_size)
    return corrupt_data("more dimensions of a head rotate than it has");
  return ok_status();
}

Status check_whole(const DecoderConfig& c) {
  const struct {
    const char* name;
    std::int64_t value, limit;
  } bounds[] = {{"vocabulary size", c.vocab_size, kLarge},
                {"hidden size", c.hidden_size, std::int64_t{1} << 20},
                {"number of layers", c.num_layers(), kMaxLayers},
                {"context length", c.max_positions, std::int64_t{1} << 28},
                {"embedding size", c.embedding_size, std::int64_t{1} << 20}};
  for (const auto& [name, value, limit] : bounds) PAGODA_RETURN_IF_ERROR(check_bound(name, value, limit));
  PAGODA_RETURN_IF_ERROR(check_positive("embedding scale", c.embedding_scale));
  PAGODA_RETURN_IF_ERROR(check_positive("logit scale", c.logit_scale));
  PAGODA_RETURN_IF_ERROR(check_limit(c.logit_softcap));
  for (const RopeConfig& rope : c.ropes) PAGODA_RETURN_IF_ERROR(check_rope(rope));
  if (c.layer_input) {
    PAGODA_RETURN_IF_ERROR(check_bound("size of layers' inputs", c.layer_input->size, 1 << 16));
    PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.layer_input->size} * c.num_layers()));
    if (c.layer_input->rows < 0 || c.layer_input->rows > 1 << 24)
      return wrong(concat("a table of ", c.layer_input->rows, " tokens for per-layer inputs"));
  }
  if (c.streams && (c.streams->count < 2 || c.streams->count > kMaxStreams))
    return wrong(concat(c.streams->count, " residual streams, not 2 to ", kMaxStreams));
  return ok_status();
}

}  // namespace

Status check_decoder(const DecoderConfig& decoder) {
  PAGODA_RETURN_IF_ERROR(check_whole(decoder));
  for (const LayerConfig& layer : decoder.layers) {
    const auto check = [&](const auto& part) { return check_part(decoder, part); };
    PAGODA_RETURN_IF_ERROR(std::visit(check, layer.mixer));
    PAGODA_RETURN_IF_ERROR(std::visit(check, layer.feed_forward));
    PAGODA_RETURN_IF_ERROR(check_positive("norm epsilon", layer.norm.eps));
    PAGODA_RETURN_IF_ERROR(check_positive("residual scale", layer.residual_scale));
    PAGODA_RETURN_IF_ERROR(check_limit(layer.branch_norm_eps));
    if (layer.learned_residual != 0)
      PAGODA_RETURN_IF_ERROR(check_bound("rank of its way around mixers", layer.learned_residual, 1 << 16));
  }
  return ok_status();
}

}  // namespace pagoda
