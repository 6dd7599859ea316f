#pragma once
// For tests: properties of a model's layers, as lists with an entry per layer.
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "models/family.h"
#include "models/model_info.h"

namespace pagoda::testing {

// Returns the family's names, without changes that its reader makes for single models.
inline WeightNames names_of(std::string_view architecture, ModelFormat format = ModelFormat::hugging_face) {
  ModelInfo model;
  model.family = &family_named(architecture);
  return model.names(format);
}

template <class Ask>
auto of_layers(const ModelInfo& model, const Ask& ask) {
  std::vector<decltype(ask(model.decoder.layers.front()))> out;
  for (const LayerConfig& layer : model.decoder.layers) out.push_back(ask(layer));
  return out;
}

// Window sizes by layer; 0: none.
inline std::vector<std::int64_t> windows(const ModelInfo& model) {
  return of_layers(model, [](const LayerConfig& layer) -> std::int64_t {
    return layer.attention() != nullptr ? layer.attention()->sliding_window : 0;
  });
}
inline std::vector<bool> rotating(const ModelInfo& model) {
  return of_layers(model, [](const LayerConfig& layer) {
    return layer.attention() != nullptr && layer.attention()->rope != kNoRope;
  });
}
inline std::vector<bool> with_mixture(const ModelInfo& model) {
  return of_layers(model, [](const LayerConfig& layer) { return layer.mixture() != nullptr; });
}
// Layers with only a state, no keys and values.
inline std::vector<bool> recurrent(const ModelInfo& model) {
  std::vector<bool> out;
  for (const LayerState& state : layer_states(model.decoder))
    out.push_back(state.kind == LayerState::Kind::state);
  return out;
}

inline const RopeConfig& rope_of(const ModelInfo& model) { return model.decoder.ropes.front(); }
inline const RopeConfig& local_rope_of(const ModelInfo& model) { return model.decoder.ropes.at(1); }
// Returns the first part of this type in any layer.
template <class Part>
const Part& first(const ModelInfo& model) {
  const Part* found = nullptr;
  const auto take = [&](const auto& part) {
    if constexpr (std::is_same_v<std::decay_t<decltype(part)>, Part>)
      if (found == nullptr) found = &part;
  };
  for (const LayerConfig& layer : model.decoder.layers) {
    std::visit(take, layer.mixer);
    std::visit(take, layer.feed_forward);
  }
  if (found != nullptr) return *found;
  static const Part none = {};
  return none;
}
inline const AttentionConfig& attention_of(const ModelInfo& model) { return first<AttentionConfig>(model); }

}  // namespace pagoda::testing
