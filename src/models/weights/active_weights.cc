#include "models/weights/active_weights.h"

#include <algorithm>

#include "models/weights/weight_parts.h"
#include "models/weights/weight_reader.h"

namespace pagoda {
namespace {

// True if `pattern` matches: "ffn_gate.{}" for "ffn_gate.3.weight", "ffn_gate_exps" for
// "ffn_gate_exps.weight".
bool names_tensor(std::string_view pattern, std::string_view name) {
  std::int32_t number = -1;
  if (pattern.empty() || !take_front(name, pattern, number)) return false;
  return name.empty() || name.front() == '.' || name.front() == '_';
}

bool is_expert(const WeightNames& names, std::string_view name) {
  return std::ranges::any_of(names.experts, [&](const ExpertNames& form) {
    return names_tensor(form.gate, name) || names_tensor(form.up, name) || names_tensor(form.down, name) ||
           names_tensor(form.gate_up, name);
  });
}

const MixtureConfig* mixture_of(const LayerConfig& layer) {
  if (const auto* both = std::get_if<MixtureBesideDenseConfig>(&layer.feed_forward)) return &both->mixture;
  return std::get_if<MixtureConfig>(&layer.feed_forward);
}

// Returns the bytes read of a layer's tensor; 0 for other tensors, and for layers beyond the model's.
std::int64_t read_of_layer(const DecoderConfig& decoder, const WeightNames& names, const StoredTensor& tensor,
                           std::string_view own_name) {
  std::int32_t index = -1;
  const std::string_view layer = std::string_view(names.layer).substr(names.prefix.size());
  if (!take_front(own_name, layer, index) || index >= decoder.num_layers()) return 0;
  const MixtureConfig* mixture = mixture_of(decoder.layers[static_cast<std::size_t>(index)]);
  if (mixture == nullptr || !is_expert(names, own_name)) return tensor.bytes;
  return static_cast<std::int64_t>(static_cast<double>(tensor.bytes) * mixture->routing.per_token /
                                   mixture->routing.num_experts);
}

}  // namespace

std::int64_t active_weight_bytes(const DecoderConfig& decoder, const WeightNames& names,
                                 std::span<const StoredTensor> tensors) {
  std::vector<std::string_view> prefixes(names.other_prefixes.begin(), names.other_prefixes.end());
  prefixes.push_back(names.prefix);
  prefixes.push_back("");
  // Longest first: "" matches everything.
  std::ranges::sort(prefixes, [](auto a, auto b) { return a.size() > b.size(); });
  const std::string_view embedding = std::string_view(names.token_embedding).substr(names.prefix.size());
  std::int64_t sum = 0;
  for (const StoredTensor& tensor : tensors) {
    std::string_view name = tensor.name;
    for (const std::string_view wrapper : wrapper_prefixes()) {
      if (!name.starts_with(wrapper)) continue;
      name.remove_prefix(wrapper.size());
      break;
    }
    const bool head = names_tensor(names.head, name) || names_tensor(names.other_head, name);
    if (head && !decoder.tied_head) {
      sum += tensor.bytes;
      continue;
    }
    for (const std::string_view prefix : prefixes) {
      if (!name.starts_with(prefix)) continue;
      const std::string_view own_name = name.substr(prefix.size());
      if (decoder.tied_head && names_tensor(embedding, own_name)) sum += tensor.bytes;
      sum += read_of_layer(decoder, names, tensor, own_name);
      break;
    }
  }
  return sum;
}

}  // namespace pagoda
