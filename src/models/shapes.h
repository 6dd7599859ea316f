#pragma once
// Ways in which decoders of several families differ from Llama's; each function changes existing layers
// (reading.h). Private to models/.
#include <cmath>
#include <cstdint>

#include "models/decoder_config.h"

namespace pagoda {

template <class Change>
void each_attention(DecoderConfig& decoder, const Change& change) {
  for (LayerConfig& layer : decoder.layers)
    if (AttentionConfig* const attention = layer.attention()) change(*attention);
}
template <class Change>
void each_mixture(DecoderConfig& decoder, const Change& change) {
  for (LayerConfig& layer : decoder.layers)
    if (MixtureConfig* const mixture = layer.mixture()) change(*mixture);
}

// Attention and feed-forward read the same input.
inline void set_parallel(DecoderConfig& decoder) {
  for (LayerConfig& layer : decoder.layers) layer.parallel = true;
}
inline void scale_residual(float scale, DecoderConfig& decoder) {
  for (LayerConfig& layer : decoder.layers) layer.residual_scale = scale;
}
// As in Gemma.
inline void scale_embedding(DecoderConfig& decoder) {
  decoder.embedding_scale = std::sqrt(static_cast<float>(decoder.hidden_size));
  decoder.scale_as_embedding = true;
}

// Applies `change` to the norms of all layers and the final norm.
template <class Change>
void each_norm(DecoderConfig& decoder, const Change& change) {
  for (LayerConfig& layer : decoder.layers) change(layer.norm);
  if (decoder.final_norm) change(*decoder.final_norm);
}
inline void layer_norms(DecoderConfig& decoder) {
  each_norm(decoder, [](NormConfig& norm) { norm.kind = NormKind::layer; });
}
// Norm weights are 1 more than in the file.
inline void offset_norms(DecoderConfig& decoder) {
  each_norm(decoder, [](NormConfig& norm) { norm.weight_offset = 1; });
}
inline void set_norm_eps(float eps, DecoderConfig& decoder) {
  each_norm(decoder, [&](NormConfig& norm) { norm.eps = eps; });
}
inline void norm_embedding(DecoderConfig& decoder) {  // instead of a final norm
  decoder.embedding_norm = decoder.final_norm;
  decoder.final_norm.reset();
}
inline void place_norms(DecoderConfig& decoder, const NormPlaces& places) {
  for (LayerConfig& layer : decoder.layers) layer.mixer_norms = layer.feed_forward_norms = places;
}
// Norms after each sublayer as well as before; or only after.
inline void norm_branches(DecoderConfig& decoder) { place_norms(decoder, {.branch = true}); }
inline void norm_branches_alone(DecoderConfig& decoder) {
  place_norms(decoder, {.input = false, .branch = true});
}
// BERT has a norm of the sum after each sublayer, and no others.
inline void norm_sums(DecoderConfig& decoder) { place_norms(decoder, {.input = false, .sum = true}); }

inline void norm_queries_and_keys(DecoderConfig& decoder, QueryKeyNorm norm) {
  each_attention(decoder, [&](AttentionConfig& attention) { attention.query_key_norm = norm; });
}
inline void norm_heads(DecoderConfig& decoder) { norm_queries_and_keys(decoder, QueryKeyNorm::per_head); }
inline void norm_each_head(DecoderConfig& decoder) {
  norm_queries_and_keys(decoder, QueryKeyNorm::each_head);
}
inline void norm_heads_together(DecoderConfig& decoder) {
  norm_queries_and_keys(decoder, QueryKeyNorm::whole);
}
inline void norm_heads_after_rope(DecoderConfig& decoder) {
  norm_heads(decoder);
  each_attention(decoder, [](AttentionConfig& attention) { attention.norm_after_rope = true; });
}

inline void gate_outputs(DecoderConfig& decoder, OutputGate gate) {
  each_attention(decoder, [&](AttentionConfig& attention) { attention.output_gate = gate; });
}
inline void see_both_sides(DecoderConfig& decoder) {
  each_attention(decoder, [](AttentionConfig& attention) { attention.causal = false; });
}
inline void clip_attention(float bound, DecoderConfig& decoder) {  // queries, keys and values; 0: no clipping
  each_attention(decoder, [&](AttentionConfig& attention) { attention.clip = bound; });
}
inline void cap_attention(float softcap, DecoderConfig& decoder) {
  each_attention(decoder, [&](AttentionConfig& attention) { attention.softcap = softcap; });
}
inline void scale_attention(float scale, DecoderConfig& decoder) {
  each_attention(decoder, [&](AttentionConfig& attention) { attention.scale = scale; });
}
// Scales by 1 / sqrt(hidden size / heads).
inline void scale_attention_by_width(DecoderConfig& decoder) {
  const auto heads = static_cast<float>(decoder.layers.front().attention()->num_heads);
  scale_attention(1.0f / std::sqrt(static_cast<float>(decoder.hidden_size) / heads), decoder);
}

inline void rotate_nothing(DecoderConfig& decoder) {
  each_attention(decoder, [](AttentionConfig& attention) { attention.rope = kNoRope; });
}
// Only layers with windows rotate.
inline void rotate_windows_alone(DecoderConfig& decoder) {
  each_attention(decoder, [](AttentionConfig& attention) {
    if (attention.sliding_window == 0) attention.rope = kNoRope;
  });
}
// All layers except every fourth.
inline void rotate_three_of_four(DecoderConfig& decoder) {
  for (std::size_t index = 3; index < decoder.layers.size(); index += 4)
    decoder.layers[index].attention()->rope = kNoRope;
}

inline void plain_feed_forwards(DecoderConfig& decoder) {  // without gates
  for (LayerConfig& layer : decoder.layers) {
    if (DenseFeedForwardConfig* const dense = layer.dense()) dense->gated = false;
    if (MixtureConfig* const mixture = layer.mixture()) mixture->expert.gated = false;
  }
}
inline void plain_layer_norm_shape(DecoderConfig& decoder) {
  layer_norms(decoder);
  plain_feed_forwards(decoder);
}
inline void gpt2_shape(DecoderConfig& decoder) {
  plain_layer_norm_shape(decoder);
  decoder.learned_positions = true;
}
inline void bert_shape(DecoderConfig& decoder) {
  gpt2_shape(decoder);
  norm_sums(decoder);
  norm_embedding(decoder);
}
inline void sandwich_gemma_shape(DecoderConfig& decoder) {
  scale_embedding(decoder);
  norm_branches(decoder);
}
inline void gemma3_shape(DecoderConfig& decoder) {
  sandwich_gemma_shape(decoder);
  norm_heads(decoder);
}

}  // namespace pagoda
