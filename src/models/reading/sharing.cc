// Descriptions of layers that lean on others: keys and values of earlier ones, scores that fall with the
// distance.
#include <bit>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

// The last layer of the same kind that keeps keys and values, of `count` such layers; -1: there is none.
std::int32_t last_of_its_kind(const ModelConfig& config, std::int32_t index, std::int32_t count) {
  std::int32_t layer = count - 1;
  while (layer >= 0 && config.has_window(layer) != config.has_window(index)) --layer;
  return layer;
}

}  // namespace

Result<DecoderConfig> share_kv(const ModelConfig& config, DecoderConfig decoder) {
  const std::int32_t own_kv = config.num_layers - config.shared_kv_layers;
  for (std::int32_t index = own_kv; index < config.num_layers; ++index) {
    AttentionConfig& attention = *decoder.layers[static_cast<std::size_t>(index)].attention();
    attention.kv_layer = last_of_its_kind(config, index, own_kv);
    if (attention.kv_layer < 0)
      return corrupt_data(
          "model config: a layer shares keys and values, and no earlier layer of its kind has any");
  }
  return decoder;
}

namespace {

// 2^-(max i / n) for i = 1 .. n, n a power of two. Of other numbers of heads: those of the next lower power
// first and then every second of the next higher (BLOOM), or those of the next higher, every second first
// (MPT).
std::vector<float> slopes_of(std::int32_t num_heads, double most, bool higher_first) {
  const auto slopes = [&](std::uint32_t count) {
    std::vector<float> all;
    for (std::uint32_t i = 1; i <= count; ++i)
      all.push_back(static_cast<float>(std::exp2(-most * static_cast<double>(i) / count)));
    return all;
  };
  const auto heads = static_cast<std::uint32_t>(num_heads);
  if (std::has_single_bit(heads)) return slopes(heads);
  const std::vector<float> higher = slopes(std::bit_ceil(heads));
  std::vector<float> result;
  if (higher_first) {
    for (std::size_t i = 1; i < higher.size(); i += 2) result.push_back(higher[i]);
  } else {
    result = slopes(std::bit_floor(heads));
  }
  for (std::size_t i = 0; result.size() < heads; i += 2) result.push_back(higher[i]);
  return result;
}

}  // namespace

Result<DecoderConfig> alibi_description(const ModelConfig& config, AlibiOrder order) {
  if (!(config.alibi_max > 0)) return corrupt_data("the model's ALiBi has no slopes");
  auto decoder = plain_layer_norm_description(config);
  if (!decoder) return decoder.error();
  const std::vector<float> slopes =
      slopes_of(config.num_heads, config.alibi_max, order == AlibiOrder::higher_first);
  for (LayerConfig& layer : decoder->layers) {
    layer.attention()->rope = kNoRope;
    layer.attention()->slopes = slopes;
  }
  decoder->ropes.clear();
  return decoder;
}

// BERT and RoBERTa: learned positions, a norm of the embedding and behind each half, biases everywhere.
Result<DecoderConfig> bert_description(const ModelConfig& config) {
  auto encoder = layer_norm_description(config);
  if (!encoder) return encoder.error();
  for (LayerConfig& layer : encoder->layers) {
    layer.mixer_norms = layer.feed_forward_norms = {.input = false, .branch = false, .sum = true};
    layer.attention()->rope = kNoRope;
    layer.dense()->gated = false;
  }
  encoder->embedding_norm = encoder->final_norm;
  encoder->final_norm.reset();
  encoder->ropes.clear();
  encoder->learned_positions = true;
  encoder->position_offset = config.position_offset;
  encoder->token_types = config.token_types;
  return encoder;
}

}  // namespace pagoda
