#include "models/gguf_fields.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/strings.h"
#include "models/rope_table.h"

namespace pagoda {
namespace {

class Fields {
 public:
  explicit Fields(std::string_view architecture) : prefix_(concat(architecture, ".")) {}
  void integer(std::string_view key, std::int64_t value) {
    entries.push_back(integer_entry(prefix_ + std::string(key), static_cast<std::uint32_t>(value)));
  }
  void number(std::string_view key, float value) {
    entries.push_back(number_entry(prefix_ + std::string(key), value));
  }
  void number_unless(std::string_view key, float value, float usual) {
    if (value != usual) number(key, value);
  }
  void flag(std::string_view key, bool value) {
    entries.push_back(flag_entry(prefix_ + std::string(key), value));
  }
  void text(std::string_view key, std::string_view value) {
    entries.push_back(text_entry(prefix_ + std::string(key), value));
  }
  // One number where all layers have the same.
  void of_layers(std::string_view key, const std::vector<std::int32_t>& values) {
    if (std::ranges::adjacent_find(values, std::ranges::not_equal_to()) == values.end())
      integer(key, values.front());
    else
      entries.push_back(integers_entry(prefix_ + std::string(key), values));
  }

  std::vector<GgufEntry> entries;

 private:
  std::string prefix_;
};

void put_rope(const DecoderConfig& decoder, Fields& out) {
  if (decoder.ropes.empty()) return;
  const RopeConfig& rope = decoder.ropes.front();
  out.number("rope.freq_base", rope.theta);
  out.integer("rope.dimension_count", rope.rotary_size);
  for (const LayerConfig& layer : decoder.layers) {
    const AttentionConfig* const attention = layer.attention();
    if (attention == nullptr || attention->sliding_window == 0 || attention->rope <= 0) continue;
    out.number("rope.freq_base_swa", decoder.ropes[static_cast<std::size_t>(attention->rope)].theta);
    break;
  }
  switch (rope.scaling) {
    case RopeScaling::linear:
      out.text("rope.scaling.type", "linear");
      out.number("rope.scaling.factor", rope.factor);
      break;
    case RopeScaling::yarn:
      out.text("rope.scaling.type", "yarn");
      out.number("rope.scaling.factor", rope.factor);
      out.integer("rope.scaling.original_context_length", rope.original_positions);
      out.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
      out.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
      out.number_unless("rope.scaling.yarn_attn_factor", rope.attention_factor,
                        0.1f * std::log(rope.factor) + 1);
      break;
    case RopeScaling::longrope:
      out.text("rope.scaling.type", "longrope");
      out.integer("rope.scaling.original_context_length", rope.original_positions);
      out.number("rope.scaling.attn_factor", rope.attention_factor);
      break;
    default:  // none; llama3's are divisors; what else there is, the comparison finds
      break;
  }
}

void put_mixture(const DecoderConfig& decoder, const MixtureConfig& mixture, Fields& out) {
  const RoutingRule& rule = mixture.routing;
  out.integer("expert_count", rule.num_experts);
  out.integer("expert_used_count", rule.per_token);
  out.integer("expert_feed_forward_length", mixture.expert.intermediate_size);
  if (mixture.shared_intermediate_size > 0)
    out.integer("expert_shared_feed_forward_length", mixture.shared_intermediate_size);
  out.flag("expert_weights_norm", rule.renormalize);
  out.number_unless("expert_weights_scale", rule.scale, 1);
  if (rule.score != RouterScore::sparse_mixer)
    out.integer("expert_gating_func", rule.score == RouterScore::softmax   ? 1
                                      : rule.score == RouterScore::sigmoid ? 2
                                                                           : 3);
  if (rule.num_groups > 1) {
    out.integer("expert_group_count", rule.num_groups);
    out.integer("expert_group_used_count", rule.groups_used);
  }
  const auto first = std::ranges::find_if(
      decoder.layers, [](const LayerConfig& layer) { return layer.mixture() != nullptr; });
  if (first != decoder.layers.begin())
    out.integer("leading_dense_block_count", first - decoder.layers.begin());
}

// Those of the first layer that has them.
void put_states(const DecoderConfig& decoder, Fields& out) {
  for (const LayerConfig& layer : decoder.layers) {
    const auto* const scan = std::get_if<SelectiveScanConfig>(&layer.mixer);
    const auto* const heads = std::get_if<LinearAttentionConfig>(&layer.mixer);
    if (scan == nullptr && heads == nullptr) continue;
    out.integer("ssm.conv_kernel", scan != nullptr ? scan->num_taps : heads->num_taps);
    out.integer("ssm.inner_size", scan != nullptr ? scan->num_channels : heads->value_width());
    out.integer("ssm.state_size", scan != nullptr ? scan->state_size : heads->key_size);
    out.integer("ssm.time_step_rank", scan != nullptr ? scan->step_rank : heads->num_heads);
    if (heads != nullptr) out.integer("ssm.group_count", heads->num_key_heads);
    if (scan != nullptr && scan->norms == SelectiveScanConfig::Norms::unweighted)
      out.flag("ssm.dt_b_c_rms", true);
    return;
  }
}

void put_layers(const ModelInfo& model, Fields& out) {
  const DecoderConfig& decoder = model.decoder;
  std::vector<std::int32_t> heads, kv_heads, inner;
  const AttentionConfig* usual = nullptr;
  const MixtureConfig* mixture = nullptr;
  std::int32_t window = 0;
  for (const LayerConfig& layer : decoder.layers) {
    if (layer.mixture() != nullptr && mixture == nullptr) mixture = layer.mixture();
    const bool feeds = !std::holds_alternative<NoFeedForwardConfig>(layer.feed_forward);
    inner.push_back(layer.dense() != nullptr ? layer.dense()->intermediate_size
                    : feeds                  ? model.intermediate_size
                                             : 0);
    const AttentionConfig* const attention = layer.attention();
    if (attention != nullptr && usual == nullptr) usual = attention;
    if (attention != nullptr) window = std::max(window, attention->sliding_window);
    heads.push_back(attention != nullptr ? attention->num_heads : 0);
    kv_heads.push_back(attention != nullptr ? attention->num_kv_heads : 0);  // 0: a layer with states
  }
  // A count that layers without attention do not have, but no other either.
  if (usual != nullptr) std::ranges::replace(heads, 0, usual->num_heads);
  out.of_layers("feed_forward_length", inner);
  const NormConfig& norm = decoder.layers.front().norm;
  out.number(norm.kind == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
             norm.eps);
  if (mixture != nullptr) put_mixture(decoder, *mixture, out);
  put_states(decoder, out);
  out.of_layers("attention.head_count", heads);
  if (usual == nullptr) return;
  out.of_layers("attention.head_count_kv", kv_heads);
  out.integer("attention.key_length", usual->head_size);
  out.integer("attention.value_length", usual->head_size);
  if (window > 0) out.integer("attention.sliding_window", window);
  out.number_unless("attn_logit_softcapping", usual->softcap, 0);
  out.number_unless("attention.clamp_kqv", usual->clip, 0);
}

}  // namespace

std::vector<GgufEntry> gguf_fields(const ModelInfo& model, std::string_view architecture, GgufScales scales) {
  const DecoderConfig& decoder = model.decoder;
  Fields out(architecture);
  out.integer("context_length", decoder.max_positions);
  out.integer("embedding_length", decoder.hidden_size);
  out.integer("block_count", decoder.num_layers());
  out.integer("vocab_size", decoder.vocab_size);
  put_layers(model, out);
  put_rope(decoder, out);
  out.number_unless("final_logit_softcapping", decoder.logit_softcap, 0);
  if (scales == GgufScales::left_out) return std::move(out.entries);
  out.number_unless("logit_scale",
                    scales == GgufScales::logits_divide ? 1 / decoder.logit_scale : decoder.logit_scale, 1);
  if (scales == GgufScales::logits_times) return std::move(out.entries);
  out.number_unless("embedding_scale", decoder.embedding_scale, 1);
  out.number_unless("residual_scale", decoder.layers.front().residual_scale, 1);
  if (const AttentionConfig* const attention = decoder.layers.front().attention())
    out.number("attention.scale", attention->scale);
  return std::move(out.entries);
}

RopeDivisors rope_divisors(const DecoderConfig& decoder) {
  if (decoder.ropes.empty()) return {};
  const RopeConfig& rope = decoder.ropes.front();
  if (rope.scaling == RopeScaling::longrope)
    return {.all = {}, .short_contexts = rope.divisors, .long_contexts = rope.long_divisors};
  if (rope.scaling != RopeScaling::llama3) return {};
  const std::vector<double> turned = rope_frequencies(rope, {}),
                            plain =
                                rope_frequencies({.theta = rope.theta, .rotary_size = rope.rotary_size}, {});
  RopeDivisors out;
  for (std::size_t i = 0; i < turned.size(); ++i) out.all.push_back(static_cast<float>(plain[i] / turned[i]));
  return out;
}

}  // namespace pagoda
