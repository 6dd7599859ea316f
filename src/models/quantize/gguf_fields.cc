#include "models/quantize/gguf_fields.h"

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
  void integers(std::string_view key, const std::vector<std::int32_t>& values) {
    entries.push_back(integers_entry(prefix_ + std::string(key), values));
  }
  void flags(std::string_view key, const std::vector<bool>& values) {
    entries.push_back(flags_entry(prefix_ + std::string(key), values));
  }
  // Writes a single number if all layers have the same.
  void of_layers(std::string_view key, const std::vector<std::int32_t>& values) {
    if (std::ranges::adjacent_find(values, std::ranges::not_equal_to()) == values.end())
      integer(key, values.front());
    else
      integers(key, values);
  }

  std::vector<GgufEntry> entries;

 private:
  std::string prefix_;
};

// DeepSeek's YaRN rotations also scale the products of queries and rows: by the square of yarn's scale with
// this mscale. 0: not scaled.
double scale_power(const DecoderConfig& decoder) {
  const RopeConfig& rope = decoder.ropes.front();
  const auto* const latent = std::get_if<LatentAttentionConfig>(&decoder.layers.front().mixer);
  if (latent == nullptr || rope.scaling != RopeScaling::yarn || rope.factor <= 1) return 0;
  const double scale = std::sqrt(double{latent->scale} * std::sqrt(double{1} * latent->query_size()));
  return std::round((scale - 1) / (0.1 * std::log(double{rope.factor})) * 1e5) / 1e5;
}

void put_rope(const DecoderConfig& decoder, const GgufKind& kind, Fields& out) {
  if (decoder.ropes.empty()) return;
  const RopeConfig& rope = decoder.ropes.front();
  const double power = scale_power(decoder);
  out.number("rope.freq_base", rope.theta);
  out.integer("rope.dimension_count", rope.rotary_size);
  if (kind.traits.rope_sections) {
    const std::int32_t pairs = rope.rotary_size / 2;
    out.integers("rope.dimension_sections", {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
  }
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
      if (power != 0) out.number("rope.scaling.yarn_log_multiplier", static_cast<float>(0.1 * power));
      out.number_unless("rope.scaling.yarn_attn_factor", rope.attention_factor,
                        power != 0 ? 1 : 0.1f * std::log(rope.factor) + 1);
      break;
    case RopeScaling::longrope:
      out.text("rope.scaling.type", "longrope");
      out.integer("rope.scaling.original_context_length", rope.original_positions);
      out.number("rope.scaling.attn_factor", rope.attention_factor);
      break;
    default:  // none; llama3: divisors; anything else is found by the comparison
      break;
  }
}

void put_mixture(const DecoderConfig& decoder, const MixtureConfig& mixture, Fields& out) {
  const RoutingRule& rule = mixture.routing;
  const std::int32_t inner = mixture.expert.intermediate_size, shared = mixture.shared_intermediate_size;
  out.integer("expert_count", rule.num_experts);
  out.integer("expert_used_count", rule.per_token);
  out.integer("expert_feed_forward_length", inner);
  if (shared > 0) out.integer("expert_shared_feed_forward_length", shared);
  if (shared > 0) out.integer("expert_shared_count", shared % inner == 0 ? shared / inner : 1);
  out.flag("expert_weights_norm", rule.renormalize);
  out.number("expert_weights_scale", rule.scale);
  if (rule.score != RouterScore::sparse_mixer)
    out.integer("expert_gating_func", rule.score == RouterScore::softmax   ? 1
                                      : rule.score == RouterScore::sigmoid ? 2
                                                                           : 3);
  if (rule.num_groups > 1) {
    out.integer("expert_group_count", rule.num_groups);
    out.integer("expert_group_used_count", rule.groups_used);
  }
  const auto has_mixture = [](const LayerConfig& layer) { return layer.mixture() != nullptr; };
  const auto first = std::ranges::find_if(decoder.layers, has_mixture);
  out.integer("leading_dense_block_count", first - decoder.layers.begin());
  if (!is_encoder(decoder)) return;
  const auto next = std::find_if(first + 1, decoder.layers.end(), has_mixture);
  // If only one layer has experts, any period that reaches no other layer works.
  out.integer("moe_every_n_layers", std::max<std::ptrdiff_t>(next - first, 2));
}

// Writes which layers have delta nets: all but every n-th, or a list.
void put_delta_net_layers(const DecoderConfig& decoder, Fields& out) {
  std::vector<bool> has;
  for (const LayerConfig& layer : decoder.layers)
    has.push_back(std::holds_alternative<LinearAttentionConfig>(layer.mixer));
  const auto interval = std::ranges::find(has, false) - has.begin() + 1;
  for (std::ptrdiff_t i = 0; i < std::ssize(has); ++i)
    if (has[static_cast<std::size_t>(i)] != ((i + 1) % interval != 0))
      return out.flags("attention.recurrent_layers", has);
  out.integer("full_attention_interval", interval);
}

// Writes the states of the first layer that has them.
void put_states(const DecoderConfig& decoder, const AttentionConfig* usual, Fields& out) {
  for (const LayerConfig& layer : decoder.layers) {
    const auto* const both = std::get_if<ParallelMixersConfig>(&layer.mixer);
    const auto* const scan = std::get_if<SelectiveScanConfig>(&layer.mixer);
    const auto* const conv = std::get_if<ShortConvConfig>(&layer.mixer);
    const auto* const heads =
        both != nullptr ? &both->linear : std::get_if<LinearAttentionConfig>(&layer.mixer);
    if (conv != nullptr) return out.integer("shortconv.l_cache", conv->num_taps);
    if (scan == nullptr && heads == nullptr) continue;
    out.integer("ssm.conv_kernel", scan != nullptr ? scan->num_taps : heads->num_taps);
    out.integer("ssm.inner_size", scan != nullptr ? scan->num_channels : heads->value_width());
    out.integer("ssm.state_size", scan != nullptr ? scan->state_size : heads->key_size);
    out.integer("ssm.time_step_rank", scan != nullptr ? scan->step_rank : heads->num_heads);
    if (heads != nullptr) out.integer("ssm.group_count", heads->num_key_heads);
    if (scan != nullptr && scan->norms == SelectiveScanConfig::Norms::unweighted)
      out.flag("ssm.dt_b_c_rms", true);
    if (heads != nullptr && heads->delta_rule)
      put_delta_net_layers(decoder, out);
    else if (heads != nullptr && usual != nullptr && both == nullptr)
      out.flag("rope.scaling.finetuned", usual->rope != kNoRope);  // tells whether the model rotates
    return;
  }
}

// Writes latent attention as a single key head, the kept row, with the heads' sizes as separate keys; or, if
// files have keys and values of the heads in one matrix, as ordinary attention.
void put_latent(const ModelInfo& model, const LatentAttentionConfig& latent, const GgufKind& kind,
                Fields& out) {
  const bool apart = !kind.names.key_b.empty();
  out.integer("attention.head_count", latent.num_heads);
  out.integer("attention.head_count_kv", apart ? 1 : latent.num_heads);
  out.integer("attention.key_length", apart ? latent.row_size() : latent.query_size());
  out.integer("attention.value_length", apart ? latent.latent_size : latent.value_size);
  if (apart) {
    out.integer("attention.key_length_mla", latent.query_size());
    out.integer("attention.value_length_mla", latent.value_size);
  }
  if (latent.query_rank > 0) out.integer("attention.q_lora_rank", latent.query_rank);
  out.integer("attention.kv_lora_rank", latent.latent_size);
  out.number_unless("attention.temperature_scale", latent.temperature_beta, 0);
  const bool experts = std::ranges::any_of(
      model.decoder.layers, [](const LayerConfig& layer) { return layer.mixture() != nullptr; });
  if (!apart || experts) return;  // such files have these fields without experts, too
  out.integer("leading_dense_block_count", model.decoder.num_layers());
  out.integer("expert_feed_forward_length", model.intermediate_size);
  out.integer("expert_shared_count", 0);
}

const AttentionConfig* attention_of(const LayerConfig& layer) {
  const auto* const both = std::get_if<ParallelMixersConfig>(&layer.mixer);
  return both != nullptr ? &both->attention : layer.attention();
}

// Returns the period of windows: in each period the first or the last layer has full attention.
std::ptrdiff_t period_of(const DecoderConfig& decoder) {
  const auto sees_all = [](const LayerConfig& layer) { return layer.attention()->sliding_window == 0; };
  const bool first = sees_all(decoder.layers.front());
  const auto next = std::find_if(decoder.layers.begin() + (first ? 1 : 0), decoder.layers.end(), sees_all);
  return next - decoder.layers.begin() + (first ? 0 : 1);
}

void put_attention(const DecoderConfig& decoder, const AttentionConfig& usual, bool lists_windows,
                   Fields& out) {
  std::vector<std::int32_t> heads, kv_heads;
  std::vector<bool> windows;
  std::int32_t window = 0;
  for (const LayerConfig& layer : decoder.layers) {
    const AttentionConfig* const attention = attention_of(layer);
    const auto* const states = std::get_if<LinearAttentionConfig>(&layer.mixer);
    if (attention != nullptr) window = std::max(window, attention->sliding_window);
    windows.push_back(attention != nullptr && attention->sliding_window > 0);
    // Layers without attention have no head count; the usual one is written.
    heads.push_back(attention != nullptr ? attention->num_heads : usual.num_heads);
    // 0: a layer with states; files of delta nets list such layers separately.
    kv_heads.push_back(attention != nullptr                      ? attention->num_kv_heads
                       : states != nullptr && states->delta_rule ? usual.num_kv_heads
                                                                 : 0);
  }
  out.of_layers("attention.head_count", heads);
  out.of_layers("attention.head_count_kv", kv_heads);
  out.integer("attention.key_length", usual.head_size);
  out.integer("attention.value_length", usual.head_size);
  // An encoder's window extends equally to both sides.
  if (window > 0) out.integer("attention.sliding_window", usual.causal ? window : 2 * (window - 1));
  if (!usual.causal) out.flag("attention.causal", false);
  if (lists_windows && usual.causal && window > 0) out.flags("attention.sliding_window_pattern", windows);
  if (!usual.causal && window > 0) out.integer("attention.sliding_window_pattern", period_of(decoder));
  out.number_unless("attn_logit_softcapping", usual.softcap, 0);
  out.number_unless("attention.clamp_kqv", usual.clip, 0);
  out.number_unless("attention.temperature_scale", usual.temperature_beta, 0);
  if (usual.slopes.empty()) return;
  // The smallest slope is 2^-max_alibi_bias.
  out.number("attention.max_alibi_bias", std::round(-std::log2(std::ranges::min(usual.slopes))));
}

void put_layers(const ModelInfo& model, const GgufKind& kind, const AttentionConfig* usual, Fields& out) {
  const DecoderConfig& decoder = model.decoder;
  std::vector<std::int32_t> inner;
  const MixtureConfig* mixture = nullptr;
  for (const LayerConfig& layer : decoder.layers) {
    if (layer.mixture() != nullptr && mixture == nullptr) mixture = layer.mixture();
    const bool feeds = !std::holds_alternative<NoFeedForwardConfig>(layer.feed_forward);
    inner.push_back(layer.dense() != nullptr ? layer.dense()->intermediate_size
                    : !feeds                 ? 0
                    : model.intermediate_size == 0 && layer.mixture() != nullptr
                        ? layer.mixture()->expert.intermediate_size
                        : model.intermediate_size);
  }
  out.of_layers("feed_forward_length", inner);
  const NormConfig& norm = decoder.layers.front().norm;
  // Families that imply layer norms use the other key.
  if (norm.kind == NormKind::layer) out.number("attention.layer_norm_epsilon", norm.eps);
  if (norm.kind == NormKind::rms || !kind.traits.layer_norm)
    out.number("attention.layer_norm_rms_epsilon", norm.eps);
  if (kind.traits.may_be_parallel) out.flag("use_parallel_residual", decoder.layers.front().parallel);
  if (mixture != nullptr) put_mixture(decoder, *mixture, out);
  put_states(decoder, usual, out);
  if (const auto* const latent = std::get_if<LatentAttentionConfig>(&decoder.layers.front().mixer))
    put_latent(model, *latent, kind, out);
  else if (usual != nullptr)
    put_attention(decoder, *usual, kind.lists_windows, out);
  else
    out.integer("attention.head_count", 0);
}

}  // namespace

std::vector<GgufEntry> gguf_fields(const ModelInfo& model, const GgufKind& kind) {
  const DecoderConfig& decoder = model.decoder;
  Fields out(kind.architecture);
  const auto attends = std::ranges::find_if(
      decoder.layers, [](const LayerConfig& layer) { return attention_of(layer) != nullptr; });
  const AttentionConfig* const usual = attends == decoder.layers.end() ? nullptr : attention_of(*attends);
  out.integer("context_length", decoder.max_positions);
  out.integer("embedding_length", decoder.hidden_size);
  out.integer("block_count", decoder.num_layers());
  out.integer("vocab_size", decoder.vocab_size);
  put_layers(model, kind, usual, out);
  put_rope(decoder, kind, out);
  if (decoder.token_types > 0)
    out.entries.push_back(
        integer_entry("tokenizer.ggml.token_type_count", static_cast<std::uint32_t>(decoder.token_types)));
  out.number_unless("final_logit_softcapping", decoder.logit_softcap, 0);
  if (kind.scales == GgufScales::left_out || kind.scales == GgufScales::folded) return std::move(out.entries);
  const bool divide = kind.scales == GgufScales::logits_divide;
  out.number_unless("logit_scale", divide ? 1 / decoder.logit_scale : decoder.logit_scale, 1);
  if (!divide) return std::move(out.entries);
  out.number_unless("embedding_scale", decoder.embedding_scale, 1);
  out.number_unless("residual_scale", decoder.layers.front().residual_scale, 1);
  if (usual != nullptr)
    out.number_unless("attention.scale", usual->scale,
                      1.0f / std::sqrt(static_cast<float>(usual->head_size)));
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
