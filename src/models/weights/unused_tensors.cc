#include "models/weights/unused_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>

#include "base/strings.h"

namespace pagoda {
namespace {

// Name parts of vision, audio and speech modules, and of modules that connect them to the language model.
constexpr auto kSenses = std::to_array<std::string_view>(
    {"vision",    "visual",      "image",     "audio",   "multi_modal", "mm_",       "speech",
     "projector", "connector",   "merger",    "aligner", "mlp1.",       "resampler", "perceiver",
     "qformer",   "patch_embed", "sam_model", "talker",  "token2wav",   "vqmodel"});

// Returns e.g. "vision_tower" for "model.vision_tower.layers.0.norm.weight".
std::string_view tower_of(std::string_view name) {
  constexpr std::string_view kBefore = "model.";
  if (name.starts_with(kBefore)) name.remove_prefix(kBefore.size());
  return name.substr(0, name.find('.'));
}

bool has_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != name.npos; });
}

// Returns the number after "layers." or "blk."; -1 if none.
std::int32_t layer_of(std::string_view name) {
  for (const std::string_view before : {"layers.", "blk."}) {
    const std::size_t at = name.find(before);
    std::int32_t layer = -1;
    if (at == name.npos) continue;
    std::from_chars(name.data() + at + before.size(), name.data() + name.size(), layer);
    return layer;
  }
  return -1;
}

}  // namespace

UnusedTensors describe_unused(std::span<const std::string> names, std::int32_t num_layers) {
  static constexpr std::array<std::string_view, 2> kDrafts = {"mtp.", "nextn."};
  std::size_t drafts = 0, senses = 0, others = 0;
  std::string_view first_other;
  std::set<std::string_view> towers;
  for (const std::string& name : names) {
    if (has_any(name, kSenses)) {
      ++senses;
      towers.insert(tower_of(name));
    } else if (has_any(name, kDrafts) || layer_of(name) >= num_layers) {
      ++drafts;
    } else if (++others == 1) {
      first_other = name;
    }
  }
  const auto tensors = [](std::size_t count) { return concat(count, count == 1 ? " tensor" : " tensors"); };
  UnusedTensors out;
  if (drafts > 0) out.beside_text = concat(tensors(drafts), " of multi-token prediction");
  if (senses > 0) {
    std::string listed;
    for (const std::string_view tower : towers) listed += concat(listed.empty() ? "" : ", ", tower);
    out.beside_text += concat(drafts > 0 ? concat(", ", senses) : tensors(senses),
                              " for pictures and sounds (", listed, ")");
  }
  if (others > 0) out.unknown = concat(tensors(others), " (", others > 1 ? "first: " : "", first_other, ")");
  return out;
}

}  // namespace pagoda
