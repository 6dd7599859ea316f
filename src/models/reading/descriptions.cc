// Decoders that families share: what ModelConfig says as layers.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

RouterScore router_score(ExpertScore score) {
  switch (score) {
    case ExpertScore::softmax:
      return RouterScore::softmax;
    case ExpertScore::softmax_of_chosen:
      return RouterScore::softmax_of_chosen;
    case ExpertScore::sparse_mixer:
      return RouterScore::sparse_mixer;
    case ExpertScore::sigmoid:
      break;
  }
  return RouterScore::sigmoid;
}

MixtureConfig mixture_of(const ExpertsConfig& experts, const DenseFeedForwardConfig& dense) {
  MixtureConfig mixture = {.routing = {.score = router_score(experts.score),
                                       .num_experts = experts.count,
                                       .per_token = experts.per_token,
                                       .num_groups = experts.groups,
                                       .groups_used = experts.groups_used,
                                       .group_is_best_two = experts.score == ExpertScore::sigmoid,
                                       .renormalize = experts.renormalize,
                                       .scale = experts.scale,
                                       .near = experts.near},
                           .expert = dense,
                           .shared_intermediate_size = experts.shared_intermediate_size,
                           .shared_scale = experts.shared_scale,
                           .shared_gate = experts.shared_gate};
  mixture.expert.intermediate_size = experts.intermediate_size;
  return mixture;
}

}  // namespace

Result<DecoderConfig> common_description(const ModelConfig& config) {
  const auto activation = activation_named(config.activation);
  if (!activation) return activation.error();
  DecoderConfig decoder;
  decoder.vocab_size = config.vocab_size;
  decoder.hidden_size = config.hidden_size;
  decoder.embedding_size = config.embedding_size > 0 ? config.embedding_size : config.hidden_size;
  decoder.max_positions = config.max_positions;
  decoder.interleaved_rows = config.rope_interleaved_rows;
  decoder.tied_head = config.tie_embeddings;
  const RopeConfig rope = {.theta = config.rope_theta,
                           .rotary_size = config.rotary_size > 0 ? config.rotary_size : config.head_size,
                           .scaling = config.rope_scaling,
                           .factor = config.rope_factor,
                           .low_freq_factor = config.rope_low_freq_factor,
                           .high_freq_factor = config.rope_high_freq_factor,
                           .original_positions = config.rope_original_positions,
                           .beta_fast = config.rope_beta_fast,
                           .beta_slow = config.rope_beta_slow,
                           .truncate = config.rope_truncate,
                           .turned = config.rotary_dims,
                           .divisors = config.rope_short_factors,
                           .long_divisors = config.rope_long_factors,
                           .attention_factor = config.rope_attention_factor};
  decoder.ropes.push_back(rope);
  if (config.rope_local_theta > 0)
    decoder.ropes.push_back({.theta = config.rope_local_theta,
                             .rotary_size = config.rope_local_rotary_size > 0 ? config.rope_local_rotary_size
                                                                              : rope.rotary_size});

  const NormConfig norm = {
      .kind = NormKind::rms, .eps = config.norm_eps, .weight_offset = config.norm_weight_offset};
  decoder.final_norm = norm;
  const AttentionConfig attention = {
      .num_heads = config.num_heads,
      .num_kv_heads = config.num_kv_heads > 0 ? config.num_kv_heads : config.num_heads,
      .head_size = config.head_size,
      .causal = !config.encoder,
      .scale = config.attention_scale > 0 ? config.attention_scale
                                          : 1.0f / std::sqrt(static_cast<float>(config.head_size)),
      .softcap = config.attention_softcap,
      .clip = config.attention_clip,
      .temperature_beta = config.temperature_beta,
      .temperature_positions = std::max(config.temperature_positions, 1)};
  const LayerConfig layer = {
      .mixer = attention,
      .feed_forward = DenseFeedForwardConfig{config.intermediate_size, *activation, true},
      .norm = norm,
      .mixer_norms = {},
      .feed_forward_norms = {},
      .residual_scale = config.residual_scale,
      .parallel = config.parallel};
  decoder.embedding_scale = config.embedding_scale;
  decoder.logit_scale = config.logit_scale;
  decoder.logit_softcap = config.logit_softcap;
  for (std::int32_t index = 0; index < config.num_layers; ++index) {
    decoder.layers.push_back(layer);
    if (!config.layer_sizes.empty()) {
      const LayerSizes& sizes = config.layer_sizes[static_cast<std::size_t>(index)];
      if (sizes.num_heads > 0) decoder.layers.back().attention()->num_heads = sizes.num_heads;
      decoder.layers.back().attention()->num_kv_heads = sizes.num_kv_heads;
      decoder.layers.back().attention()->head_size = sizes.head_size;
      decoder.layers.back().dense()->intermediate_size = sizes.intermediate_size;
    }
    if (config.experts.in_layer(index))
      decoder.layers.back().feed_forward = mixture_of(config.experts, *decoder.layers.back().dense());
    if (!config.rope_layers.empty() && !config.rope_layers[static_cast<std::size_t>(index)])
      decoder.layers.back().attention()->rope = kNoRope;
    if (!config.has_window(index)) continue;
    AttentionConfig& windowed = *decoder.layers.back().attention();
    windowed.sliding_window = config.sliding_window;
    if (config.rope_local_theta > 0 && windowed.rope != kNoRope) windowed.rope = 1;
  }
  return decoder;
}

Result<DecoderConfig> layer_norm_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.norm.kind = NormKind::layer;
  decoder->final_norm->kind = NormKind::layer;
  return decoder;
}

Result<DecoderConfig> each_head_description(const ModelConfig& config) {
  auto decoder = layer_norm_description(config);
  if (!decoder || !config.query_key_norm) return decoder;
  for (LayerConfig& layer : decoder->layers) layer.attention()->query_key_norm = QueryKeyNorm::each_head;
  return decoder;
}

Result<DecoderConfig> plain_layer_norm_description(const ModelConfig& config) {
  auto decoder = layer_norm_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.dense()->gated = false;
  return decoder;
}

Result<Activation> activation_named(std::string_view name) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "relu") return Activation::relu;
  if (name == "relu2") return Activation::relu2;
  if (name == "gelu") return Activation::gelu_erf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  return unimplemented(
      concat("activation '", name,
             "' is not supported; supported are silu, relu, relu2, gelu, gelu_new, gelu_pytorch_tanh"));
}

Result<DecoderConfig> qwen3_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->query_key_norm = QueryKeyNorm::per_head;
  return decoder;
}

Result<DecoderConfig> olmoe_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->query_key_norm = QueryKeyNorm::whole;
  return decoder;
}

Result<DecoderConfig> hunyuan_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.attention()->query_key_norm = QueryKeyNorm::per_head;
    layer.attention()->norm_after_rope = true;
  }
  return decoder;
}

Result<DecoderConfig> norms_behind_description(const ModelConfig& config, QueryKeyNorm query_key_norm) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.mixer_norms = layer.feed_forward_norms = {.input = false, .branch = true, .sum = false};
    layer.attention()->query_key_norm = query_key_norm;
  }
  return decoder;
}

Result<DecoderConfig> gated_description(const ModelConfig& config, OutputGate gate) {
  auto decoder = qwen3_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->output_gate = gate;
  return decoder;
}

Result<DecoderConfig> gemma_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  return decoder;
}

Result<DecoderConfig> sandwich_gemma_description(const ModelConfig& config) {
  auto decoder = gemma_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers)
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
  return decoder;
}

Result<DecoderConfig> gemma3_description(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  for (LayerConfig& layer : decoder->layers) {
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.attention()->query_key_norm = QueryKeyNorm::per_head;
  }
  return decoder;
}

}  // namespace pagoda
