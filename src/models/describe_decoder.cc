// Facts of a model that are known before any weight is read, checked for sense.
#include "base/strings.h"
#include "kernels/causal_conv.h"
#include "models/decoder.h"

namespace pagoda {
namespace {

Status wrong(std::string_view what) { return corrupt_data(concat("model config: ", what)); }

Status check_size(std::int64_t size) {
  if (size <= 0) return wrong("a size is missing or not positive");
  if (size > 1 << 28) return wrong("a size is absurdly large");
  return ok_status();
}

Status check_part(const DecoderConfig& decoder, const AttentionConfig& c) {
  for (const std::int32_t size : {c.num_heads, c.num_kv_heads, c.head_size})
    PAGODA_RETURN_IF_ERROR(check_size(size));
  if (c.num_heads % c.num_kv_heads != 0) {
    return wrong(
        concat(c.num_heads, " query heads are not a multiple of ", c.num_kv_heads, " key-value heads"));
  }
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_heads} * c.head_size));
  if (c.rope == kNoRope) return ok_status();
  const std::int32_t rotary = decoder.ropes[static_cast<std::size_t>(c.rope)].rotary_size;
  if (rotary <= 0 || rotary % 2 != 0 || rotary > c.head_size)
    return wrong(concat(rotary, " rotated dimensions of a head of ", c.head_size));
  return ok_status();
}

Status check_part(const DecoderConfig& decoder, const LatentAttentionConfig& c) {
  for (const std::int32_t size : {c.num_heads, c.latent_size, c.nope_size, c.rope_size, c.value_size})
    PAGODA_RETURN_IF_ERROR(check_size(size));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_heads + 1} * (c.latent_size + c.query_size())));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_heads} * (c.nope_size + c.value_size)));
  if (c.query_rank != 0) PAGODA_RETURN_IF_ERROR(check_size(c.query_rank));
  if (decoder.ropes[static_cast<std::size_t>(c.rope)].rotary_size != c.rope_size || c.rope_size % 2 != 0)
    return wrong(concat(c.rope_size, " rotated elements of a row"));
  return ok_status();
}

Status check_part(const DecoderConfig& decoder, const ShortConvConfig& c) {
  if (c.num_taps < 2 || c.num_taps > kMaxConvTaps)
    return wrong(concat("a convolution over ", c.num_taps, " tokens, not 2 to ", kMaxConvTaps));
  if (c.num_channels != decoder.hidden_size) return wrong("a short convolution of another width");
  return ok_status();
}

Status check_part(const DecoderConfig&, const LinearAttentionConfig& c) {
  for (const std::int32_t size : {c.num_heads, c.num_key_heads, c.key_size, c.value_size})
    PAGODA_RETURN_IF_ERROR(check_size(size));
  if (c.num_heads % c.num_key_heads != 0)
    return wrong(
        concat(c.num_heads, " heads with states are not a multiple of ", c.num_key_heads, " key heads"));
  if (c.num_taps < 2 || c.num_taps > kMaxConvTaps)
    return wrong(concat("a convolution over ", c.num_taps, " tokens, not 2 to ", kMaxConvTaps));
  if (c.norm_groups < 0 || (c.norm_groups > 0 && c.num_heads % c.norm_groups != 0))
    return wrong(concat(c.norm_groups, " groups of ", c.num_heads, " heads' norms"));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_heads} * c.value_size));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.num_key_heads} * c.key_size));
  return check_size(std::int64_t{c.key_size} * c.value_size);
}

Status check_part(const DecoderConfig& decoder, const ParallelMixersConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_part(decoder, c.attention));
  return check_part(decoder, c.linear);
}

Status check_part(const DecoderConfig&, const NoMixerConfig&) { return ok_status(); }
Status check_part(const DecoderConfig&, const NoFeedForwardConfig&) { return ok_status(); }

Status check_part(const DecoderConfig&, const DenseFeedForwardConfig& c) {
  return check_size(c.intermediate_size);
}

Status check_part(const DecoderConfig& decoder, const MixtureConfig& c) {
  constexpr std::int32_t kMaxExperts = 65536;
  const RoutingRule& rule = c.routing;
  if (rule.num_experts < 1 || rule.num_experts > kMaxExperts)
    return wrong(concat(rule.num_experts, " experts"));
  if (rule.num_groups < 1 || rule.groups_used < 1 || rule.groups_used > rule.num_groups ||
      rule.num_experts % rule.num_groups != 0)
    return wrong(
        concat(rule.groups_used, " of ", rule.num_groups, " groups of ", rule.num_experts, " experts"));
  if (rule.per_token < 1 || rule.per_token > rule.num_experts / rule.num_groups * rule.groups_used)
    return wrong(concat(rule.per_token, " experts a token of ", rule.num_experts));
  PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{rule.per_token} * decoder.hidden_size));
  if (c.shared_intermediate_size != 0) PAGODA_RETURN_IF_ERROR(check_size(c.shared_intermediate_size));
  return check_part(decoder, c.expert);
}

Status check_part(const DecoderConfig& decoder, const MixtureBesideDenseConfig& c) {
  PAGODA_RETURN_IF_ERROR(check_part(decoder, c.dense));
  return check_part(decoder, c.mixture);
}

Status check_part(const DecoderConfig&, const SparseFeedForwardConfig& c) {
  return check_size(c.intermediate_size);
}
Status check_part(const DecoderConfig&, const XieluConfig& c) { return check_size(c.intermediate_size); }

Status check_sizes(const DecoderConfig& c) {
  for (const std::int32_t size :
       {c.vocab_size, c.hidden_size, c.embedding_size, c.num_layers(), c.max_positions})
    PAGODA_RETURN_IF_ERROR(check_size(size));
  if (c.layer_input) {
    PAGODA_RETURN_IF_ERROR(check_size(c.layer_input->size));
    PAGODA_RETURN_IF_ERROR(check_size(std::int64_t{c.layer_input->size} * c.num_layers()));
    if (c.layer_input->rows < 0 || c.layer_input->rows > 1 << 24)
      return wrong(concat("a table of ", c.layer_input->rows, " tokens for inputs of layers"));
  }
  if (c.streams && (c.streams->count < 2 || c.streams->count > kMaxStreams))
    return wrong(concat(c.streams->count, " residual streams, not 2 to ", kMaxStreams));
  for (const LayerConfig& layer : c.layers) {
    const auto check = [&](const auto& part) { return check_part(c, part); };
    PAGODA_RETURN_IF_ERROR(std::visit(check, layer.mixer));
    if (layer.learned_residual != 0) PAGODA_RETURN_IF_ERROR(check_size(layer.learned_residual));
    PAGODA_RETURN_IF_ERROR(std::visit(check, layer.feed_forward));
  }
  return ok_status();
}

}  // namespace

Result<DecoderConfig> describe_decoder(const ModelConfig& config) {
  auto decoder = config.describe(config);
  if (!decoder) return decoder.error();
  PAGODA_RETURN_IF_ERROR(check_sizes(*decoder));
  return decoder;
}

}  // namespace pagoda
