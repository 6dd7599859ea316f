// Gemma 3n E2B, E4B: Gemma 4's inputs of layers and shared keys and values, with several residual streams (AltUp),
// a low-rank way around each mixer (LAuReL), and few features a row in the first feed-forwards.
#include <cmath>

#include "models/architecture.h"

namespace pagoda {
namespace {

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  decoder->scale_as_embedding = true;
  decoder->streams = StreamsConfig{.count = config.num_streams, .scaled = config.scaled_streams};
  decoder->layer_input = LayerInputConfig{.size = config.layer_input_size, .rows = config.layer_input_rows};
  for (std::size_t index = 0; index < decoder->layers.size(); ++index) {
    LayerConfig& layer = decoder->layers[index];
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
    layer.learned_residual = config.learned_residual;
    AttentionConfig& attention = *layer.attention();
    attention.query_key_norm = QueryKeyNorm::per_head;
    attention.value_norm = true;
    const float deviations = config.sparse_cutoffs.empty() ? -INFINITY : config.sparse_cutoffs[index];
    if (!std::isinf(deviations))
      layer.feed_forward = SparseFeedForwardConfig{layer.dense()->intermediate_size, deviations};
  }
  return share_kv(config, *std::move(decoder));
}

WeightNames names(ModelFormat format) {
  WeightNames names = layer_input_names(format);
  const bool gguf = format == ModelFormat::gguf;
  names.residual_down = gguf ? "laurel_l" : "laurel.linear_left";
  names.residual_up = gguf ? "laurel_r" : "laurel.linear_right";
  names.residual_norm = gguf ? "laurel_post_norm" : "laurel.post_laurel_norm";
  names.streams_enter = gguf ? "altup_proj" : "model.altup_projections.{}";
  names.streams_leave = gguf ? "altup_unembd_proj" : "model.altup_unembed_projections.{}";
  names.streams_router = gguf ? "altup_router" : "altup.modality_router";
  names.streams_router_norm = gguf ? "altup_router_norm" : "altup.router_norm";
  names.streams_predict = gguf ? "altup_predict_coef" : "altup.prediction_coefs";
  names.streams_correct = gguf ? "altup_correct_coef" : "altup.correction_coefs";
  names.streams_scale = gguf ? "altup_correct_scale" : "altup.correct_output_scale";
  return names;
}

}  // namespace

const Architecture kGemma3n = {"gemma3n", describe, names};

}  // namespace pagoda
