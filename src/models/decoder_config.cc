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
  };
}

}  // namespace

std::vector<LayerState> layer_states(const DecoderConfig& config) {
  std::vector<LayerState> states;
  for (const LayerConfig& layer : config.layers)
    states.push_back(std::visit([](const auto& mixer) { return state_of(mixer); }, layer.mixer));
  return states;
}

Result<KvHeads> kv_heads(const DecoderConfig& config) {
  const std::vector<LayerState> states = layer_states(config);
  const KvHeads heads = {states.front().num_kv_heads, states.front().head_size};
  for (const LayerState& state : states) {
    if (state.num_kv_heads != heads.num_kv_heads || state.head_size != heads.head_size)
      return unimplemented("layers whose key-value heads differ in number or size are not supported");
  }
  return heads;
}

}  // namespace pagoda
