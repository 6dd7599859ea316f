#include "models/active_weights.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "models/weight_reader.h"

namespace pagoda {
namespace {

// `text` without `before`, if it begins so.
std::optional<std::string_view> behind(std::string_view text, std::string_view before) {
  if (!text.starts_with(before)) return std::nullopt;
  return text.substr(before.size());
}

// Takes a number off the start of `text`.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "ffn_gate.{}" of "ffn_gate.3.weight", "ffn_gate_exps" of "ffn_gate_exps.weight".
bool names_tensor(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return false;
  const std::size_t hole = pattern.find("{}");
  auto rest = behind(name, pattern.substr(0, hole));
  if (!rest) return false;
  if (hole != pattern.npos) {
    if (!take_number(*rest)) return false;
    rest = behind(*rest, pattern.substr(hole + 2));
    if (!rest) return false;
  }
  return rest->empty() || rest->front() == '.' || rest->front() == '_';
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

// Bytes read of a layer's tensor; 0 for any other, and for layers behind the model's.
std::int64_t read_of_layer(const DecoderConfig& decoder, const WeightNames& names, const StoredTensor& tensor,
                           std::string_view own_name) {
  auto rest =
      behind(own_name, std::string_view(names.layer)
                           .substr(names.prefix.size(), names.layer.find("{}") - names.prefix.size()));
  if (!rest) return 0;
  const std::optional<std::int32_t> index = take_number(*rest);
  if (!index || *index < 0 || *index >= decoder.num_layers() || !rest->starts_with('.')) return 0;
  const MixtureConfig* mixture = mixture_of(decoder.layers[static_cast<std::size_t>(*index)]);
  if (mixture == nullptr || !is_expert(names, rest->substr(1))) return tensor.bytes;
  return static_cast<std::int64_t>(static_cast<double>(tensor.bytes) * mixture->routing.per_token /
                                   mixture->routing.num_experts);
}

}  // namespace

std::int64_t active_weight_bytes(const DecoderConfig& decoder, const WeightNames& names,
                                 std::span<const StoredTensor> tensors) {
  std::vector<std::string_view> prefixes(names.other_prefixes.begin(), names.other_prefixes.end());
  prefixes.push_back(names.prefix);
  prefixes.push_back("");
  // The longest that fits comes first: "" fits everything.
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
      const auto own_name = behind(name, prefix);
      if (!own_name) continue;
      if (decoder.tied_head && names_tensor(embedding, *own_name)) sum += tensor.bytes;
      sum += read_of_layer(decoder, names, tensor, *own_name);
      break;
    }
  }
  return sum;
}

}  // namespace pagoda
