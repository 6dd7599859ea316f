#include "models/unused_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/strings.h"

namespace pagoda {
namespace {

bool has_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != name.npos; });
}

// The number behind "layers." or "blk.", or -1.
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

std::string describe_unused(std::span<const std::string> names, std::int32_t num_layers) {
  static constexpr std::array<std::string_view, 2> kDrafts = {"mtp.", "nextn."};
  static constexpr std::array<std::string_view, 8> kSenses = {
      "vision", "visual", "image", "audio", "multi_modal", "mm_", "embed_vision", "speech"};
  std::size_t drafts = 0, senses = 0, others = 0;
  std::string_view first_other;
  for (const std::string& name : names) {
    if (has_any(name, kSenses)) {
      ++senses;
    } else if (has_any(name, kDrafts) || layer_of(name) >= num_layers) {
      ++drafts;
    } else if (++others == 1) {
      first_other = name;
    }
  }
  std::string text;
  const auto add = [&](std::size_t count, const std::string& what) {
    if (count == 0) return;
    text += concat(text.empty() ? "" : ", ", count,
                   text.empty() ? count == 1 ? " tensor " : " tensors " : " ", what);
  };
  add(drafts, "of multi-token prediction");
  add(senses, "for pictures and sounds");
  add(others, concat("of the file beside (", others > 1 ? "first: " : "", first_other, ")"));
  return text;
}

}  // namespace pagoda
