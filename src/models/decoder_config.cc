#include "models/decoder_config.h"

namespace pagoda {
namespace {

LayerState state_of(const AttentionConfig& attention) {
  return {
      .kind = !attention.causal              ? LayerState::Kind::none
              : attention.sliding_window > 0 ? LayerState::Kind::window
                                             : LayerState::Kind::full,
      .window = attention.sliding_window,
      .num_kv_heads = attention.num_kv_heads,
      .head_size = attention.head_size,
      .of_layer = attention.kv_layer,
  };
}

LayerState state_of(const LatentAttentionConfig& attention) {
  return {.num_kv_heads = 1, .head_size = attention.row_size(), .latent_size = attention.latent_size};
}

LayerState state_of(const ShortConvConfig& conv) {
  return {.kind = LayerState::Kind::state, .pieces = {std::int64_t{conv.num_taps - 1} * conv.num_channels}};
}

}  // namespace

std::vector<LayerState> layer_states(const DecoderConfig& config) {
  std::vector<LayerState> states;
  for (const LayerConfig& layer : config.layers)
    states.push_back(std::visit([](const auto& mixer) { return state_of(mixer); }, layer.mixer));
  return states;
}

std::optional<KvHeads> kv_heads(std::span<const LayerState> layers) {
  if (layers.empty()) return std::nullopt;
  const KvHeads heads = {layers.front().num_kv_heads, layers.front().head_size};
  for (const LayerState& layer : layers)
    if (layer.num_kv_heads != heads.num_kv_heads || layer.head_size != heads.head_size ||
        layer.latent_size != layers.front().latent_size)
      return std::nullopt;
  return heads;
}

std::optional<KvHeads> kv_heads(const DecoderConfig& config) { return kv_heads(layer_states(config)); }

}  // namespace pagoda
