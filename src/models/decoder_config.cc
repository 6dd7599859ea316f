#include "models/decoder_config.h"

#include <algorithm>

#include "kernels/selective_scan.h"

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

LayerState state_of(const LinearAttentionConfig& config) {
  LayerState state = {.kind = LayerState::Kind::state,
                      .pieces = {std::int64_t{config.num_taps - 1} * config.num_channels()}};
  state.pieces.insert(state.pieces.end(), static_cast<std::size_t>(config.num_heads),
                      std::int64_t{config.key_size} * config.value_size);
  return state;
}

LayerState state_of(const SelectiveScanConfig& config) {
  LayerState state = {.kind = LayerState::Kind::state,
                      .pieces = {std::int64_t{config.num_taps - 1} * config.num_channels}};
  for (std::int64_t channel = 0; channel < config.num_channels; channel += kScanChannels)
    state.pieces.push_back(std::min<std::int64_t>(kScanChannels, config.num_channels - channel) *
                           config.state_size);
  return state;
}

LayerState state_of(const ParallelMixersConfig& config) {
  LayerState state = state_of(config.attention);
  state.pieces = state_of(config.linear).pieces;
  return state;
}

LayerState state_of(const NoMixerConfig&) { return {.kind = LayerState::Kind::none}; }

}  // namespace

HeadSizes head_sizes(const DecoderConfig& config) {
  HeadSizes most;
  const auto add = [&](const HeadSizes& heads) {
    const std::int32_t size = std::max(most.head_size, heads.head_size);
    if (heads.num_heads > most.num_heads) most = heads;
    most.head_size = size;
  };
  for (const LayerConfig& layer : config.layers) {
    const auto* const parallel = std::get_if<ParallelMixersConfig>(&layer.mixer);
    if (const AttentionConfig* const a = parallel != nullptr ? &parallel->attention : layer.attention())
      add({a->num_heads, a->num_kv_heads, a->head_size});
    if (const auto* const latent = std::get_if<LatentAttentionConfig>(&layer.mixer))
      add({latent->num_heads, 1, latent->query_size()});
  }
  return most;
}

bool is_encoder(const DecoderConfig& config) {
  const AttentionConfig* const first = config.layers.empty() ? nullptr : config.layers.front().attention();
  return first != nullptr && !first->causal;
}

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
