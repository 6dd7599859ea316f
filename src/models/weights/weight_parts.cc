#include "models/weights/weight_parts.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/strings.h"
#include "models/weights/weight_reader.h"

namespace pagoda {
namespace {

constexpr WeightName kWhole[] = {&WeightNames::token_embedding, &WeightNames::position_embedding,
                                 &WeightNames::type_embedding,  &WeightNames::project_in,
                                 &WeightNames::project_out,     &WeightNames::head,
                                 &WeightNames::input_table,     &WeightNames::input_projection};
// Parts of a layer's two sublayers; then the other parts.
constexpr WeightName kSublayers[] = {&WeightNames::query,
                                     &WeightNames::key,
                                     &WeightNames::value,
                                     &WeightNames::fused_qkv,
                                     &WeightNames::attention_output,
                                     &WeightNames::output_gate,
                                     &WeightNames::query_a,
                                     &WeightNames::query_b,
                                     &WeightNames::kv_a,
                                     &WeightNames::kv_b,
                                     &WeightNames::gate,
                                     &WeightNames::up,
                                     &WeightNames::fused_gate_up,
                                     &WeightNames::down};
constexpr WeightName kBeside[] = {
    &WeightNames::key_b,           &WeightNames::value_b,        &WeightNames::conv_in,
    &WeightNames::conv_out,        &WeightNames::input_gate,     &WeightNames::input_output,
    &WeightNames::residual_down,   &WeightNames::residual_up,    &WeightNames::streams_router,
    &WeightNames::streams_predict, &WeightNames::streams_correct};
constexpr LinearName kLinear[] = {
    &LinearAttentionNames::qkv,         &LinearAttentionNames::gate,
    &LinearAttentionNames::weight,      &LinearAttentionNames::decay,
    &LinearAttentionNames::by_key_head, &LinearAttentionNames::gates_by_key_head,
    &LinearAttentionNames::in,          &LinearAttentionNames::scanned,
    &LinearAttentionNames::step,        &LinearAttentionNames::out};
constexpr ExpertName kExperts[] = {&ExpertNames::gate,           &ExpertNames::up,
                                   &ExpertNames::gate_up,        &ExpertNames::down,
                                   &ExpertNames::shared_gate,    &ExpertNames::shared_up,
                                   &ExpertNames::shared_gate_up, &ExpertNames::shared_down};
constexpr ExpertName kRouters[] = {&ExpertNames::router, &ExpertNames::shared_router};

bool is_all_of(std::string_view text, std::string_view pattern, std::int32_t& number) {
  return !pattern.empty() && take_front(text, pattern, number) && text.empty();
}

// `module` has the family's own prefix.
std::optional<ModulePart> find_part(const WeightNames& names, std::string_view module) {
  ModulePart found;
  for (const auto part : kWhole)
    if (!(names.*part).empty() && names.*part == module) return ModulePart{.part = part};
  if (!names.other_head.empty() && names.other_head == module) return found;
  if (!take_front(module, names.layer, found.layer)) return std::nullopt;
  const auto is_one_of = [&](const auto& own_names, const auto& parts) {
    return std::ranges::any_of(parts, [&](const auto part) {
      found.part = part;
      found.expert = -1;
      return is_all_of(module, own_names.*part, found.expert);
    });
  };
  if (is_one_of(names, kSublayers) || is_one_of(names, kBeside) || is_one_of(names.linear_attention, kLinear))
    return found;
  const std::pair<const std::string&, WeightName> others[] = {{names.other_dense.gate, &WeightNames::gate},
                                                              {names.other_dense.up, &WeightNames::up},
                                                              {names.other_dense.down, &WeightNames::down}};
  for (const auto& [name, part] : others)
    if (!name.empty() && name == module) return ModulePart{.part = part, .layer = found.layer};
  for (const ExpertNames& form : names.experts)
    if (is_one_of(form, kExperts) || is_one_of(form, kRouters)) return found;
  return std::nullopt;
}

// Returns the part's name within the layer, or its full name. Experts: in the first form that has the part.
std::string name_of(const WeightNames& names, const ModulePart& part) {
  if (const auto* const name = std::get_if<LinearName>(&part.part)) return names.linear_attention.**name;
  const auto* const name = std::get_if<ExpertName>(&part.part);
  if (name == nullptr) return names.*std::get<WeightName>(part.part);
  for (const ExpertNames& form : names.experts)
    if (!(form.**name).empty() && is_numbered(form.**name) == (part.expert >= 0)) return form.**name;
  return {};
}

}  // namespace

bool is_sublayer_part(const WeightPart& part) {
  const auto is_in = [&](const auto& parts) {
    return std::ranges::any_of(parts, [&](const auto each) { return part == WeightPart(each); });
  };
  return is_in(kSublayers) || is_in(kExperts);
}

bool take_front(std::string_view& text, std::string_view pattern, std::int32_t& number) {
  const std::size_t at = pattern.find("{}");
  if (!text.starts_with(pattern.substr(0, at))) return false;
  text.remove_prefix(std::min(at, pattern.size()));
  if (at == pattern.npos) return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const std::string_view rest = pattern.substr(at + 2);
  if (!text.starts_with(rest)) return false;
  text.remove_prefix(rest.size());
  return true;
}

std::string module_of(const WeightNames& names, const ModulePart& part) {
  const std::string name = name_of(names, part);
  return part.layer < 0 || name.empty() ? name : names.layer_prefix(part.layer) + numbered(name, part.expert);
}

std::optional<ModulePart> part_of(const WeightNames& names, std::string_view module) {
  // Without a wrapper's prefix; then without one that replaces the family's prefix.
  std::vector<std::string_view> inner = {module};
  for (const std::string_view wrapper : wrapper_prefixes())
    if (module.starts_with(wrapper)) inner.push_back(module.substr(wrapper.size()));
  for (const std::string_view name : inner) {
    if (const auto found = find_part(names, name)) return found;
    if (const auto found = find_part(names, concat(names.prefix, name))) return found;
    for (const std::string& other : names.other_prefixes)
      if (!other.empty() && name.starts_with(other))
        if (const auto found = find_part(names, concat(names.prefix, name.substr(other.size()))))
          return found;
  }
  return std::nullopt;
}

}  // namespace pagoda
