#include "models/family.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/check.h"
#include "base/edit_distance.h"
#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

// Returns "qwen3" for "Qwen3ForCausalLM" and for "qwen3".
std::string stem_of(std::string_view name) {
  constexpr std::size_t kMost = 64;  // characters; no family's name is longer
  std::string stem;
  for (const char c : name.substr(0, std::min(name.find("For"), kMost)))
    if (c != '_' && c != '-' && c != '.') stem += lower(c);
  return stem;
}

Status unsupported_names(std::string_view name, const std::vector<std::string_view>& supported) {
  const std::string stem = stem_of(name);
  std::string_view nearest;
  std::size_t least = std::max<std::size_t>(2, stem.size() / 4) + 1;
  for (const std::string_view each : supported) {
    const std::size_t distance = edit_distance(stem, stem_of(each));
    if (distance < least) {
      least = distance;
      nearest = each;
    }
  }
  const std::string near = nearest.empty() ? "" : concat("the nearest that is: ", nearest, "; ");
  return unimplemented(concat("architecture '", printable(name), "' is not supported; ", near,
                              "docs/models.md lists all that are"));
}

}  // namespace

std::string_view FamilyConfig::stem() const {
  for (const std::string_view end : {"ForCausalLM", "ForMaskedLM", "LMHeadModel", "TextModel"})
    if (class_name.ends_with(end)) return class_name.substr(0, class_name.size() - end.size());
  return class_name;
}

std::string Family::config_of_row() const {
  if (row.size.empty() || !row.config.empty()) return std::string(row.config);
  return concat(R"({"model_type":")", configs.front().model_type, "\"}");
}

const Family* find_gguf_family(std::string_view name, bool experts) {
  const Family* found = nullptr;
  for (const Family* family : families()) {
    if (std::ranges::find(family->ggufs, name, &FamilyGguf::name) == family->ggufs.end()) continue;
    if (found == nullptr || family->only_experts == experts) found = family;
  }
  return found;
}

const Family& family_named(std::string_view architecture) {
  const auto found = std::ranges::find(families(), architecture, &Family::called);
  CHECK(found != families().end());
  return **found;
}

Status unsupported_config(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Family* family : families()) {
    for (const FamilyConfig& config : family->configs) names.push_back(config.class_name);
    for (const FamilyWrapper& wrapper : family->wrappers) names.push_back(wrapper.class_name);
  }
  return unsupported_names(name, names);
}

Status unsupported_gguf(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Family* family : families())
    for (const FamilyGguf& gguf : family->ggufs) names.push_back(gguf.name);
  return unsupported_names(name, names);
}

}  // namespace pagoda
