#include "models/weight_parts.h"

#include <charconv>
#include <span>
#include <vector>

#include "base/strings.h"
#include "models/weight_reader.h"

namespace pagoda {
namespace {

template <class Names>
struct PartName {
  WeightPart part;
  std::string Names::* name;
};

constexpr PartName<WeightNames> kWhole[] = {
    {WeightPart::token_embedding, &WeightNames::token_embedding},
    {WeightPart::position_embedding, &WeightNames::position_embedding},
    {WeightPart::type_embedding, &WeightNames::type_embedding},
    {WeightPart::project_in, &WeightNames::project_in},
    {WeightPart::project_out, &WeightNames::project_out},
    {WeightPart::head, &WeightNames::head},
    {WeightPart::head, &WeightNames::other_head},
    {WeightPart::layer_input_table, &WeightNames::input_table},
    {WeightPart::layer_input_projection, &WeightNames::input_projection},
};

constexpr PartName<WeightNames> kOfLayer[] = {
    {WeightPart::query, &WeightNames::query},
    {WeightPart::key, &WeightNames::key},
    {WeightPart::value, &WeightNames::value},
    {WeightPart::query_key_value, &WeightNames::fused_qkv},
    {WeightPart::attention_output, &WeightNames::attention_output},
    {WeightPart::output_gate, &WeightNames::output_gate},
    {WeightPart::query_a, &WeightNames::query_a},
    {WeightPart::query_b, &WeightNames::query_b},
    {WeightPart::kv_a, &WeightNames::kv_a},
    {WeightPart::kv_b, &WeightNames::kv_b},
    {WeightPart::key_b, &WeightNames::key_b},
    {WeightPart::value_b, &WeightNames::value_b},
    {WeightPart::conv_in, &WeightNames::conv_in},
    {WeightPart::conv_out, &WeightNames::conv_out},
    {WeightPart::gate, &WeightNames::gate},
    {WeightPart::up, &WeightNames::up},
    {WeightPart::gate_up, &WeightNames::fused_gate_up},
    {WeightPart::down, &WeightNames::down},
    {WeightPart::layer_input_gate, &WeightNames::input_gate},
    {WeightPart::layer_input_output, &WeightNames::input_output},
    {WeightPart::residual_down, &WeightNames::residual_down},
    {WeightPart::residual_up, &WeightNames::residual_up},
    {WeightPart::streams_router, &WeightNames::streams_router},
    {WeightPart::streams_predict, &WeightNames::streams_predict},
    {WeightPart::streams_correct, &WeightNames::streams_correct},
};

constexpr PartName<LinearAttentionNames> kLinear[] = {
    {WeightPart::linear_qkv, &LinearAttentionNames::qkv},
    {WeightPart::linear_gate, &LinearAttentionNames::gate},
    {WeightPart::linear_weight, &LinearAttentionNames::weight},
    {WeightPart::linear_decay, &LinearAttentionNames::decay},
    {WeightPart::linear_by_key_head, &LinearAttentionNames::by_key_head},
    {WeightPart::linear_gates_by_key_head, &LinearAttentionNames::gates_by_key_head},
    {WeightPart::linear_in, &LinearAttentionNames::in},
    {WeightPart::linear_out, &LinearAttentionNames::out},
};

constexpr PartName<ExpertNames> kExperts[] = {
    {WeightPart::router, &ExpertNames::router},
    {WeightPart::expert_gate, &ExpertNames::gate},
    {WeightPart::expert_up, &ExpertNames::up},
    {WeightPart::expert_gate_up, &ExpertNames::gate_up},
    {WeightPart::expert_down, &ExpertNames::down},
    {WeightPart::shared_gate, &ExpertNames::shared_gate},
    {WeightPart::shared_up, &ExpertNames::shared_up},
    {WeightPart::shared_gate_up, &ExpertNames::shared_gate_up},
    {WeightPart::shared_down, &ExpertNames::shared_down},
    {WeightPart::shared_router, &ExpertNames::shared_router},
};

// Calls take(part, name) for every name behind `layer`; ends early when it returns true.
template <class Take>
bool any_of_layer(const WeightNames& names, const Take& take) {
  for (const auto& [part, name] : kOfLayer)
    if (take(part, names.*name)) return true;
  for (const auto& [part, name] : kLinear)
    if (take(part, names.linear_attention.*name)) return true;
  for (const ExpertNames& form : names.experts)
    for (const auto& [part, name] : kExperts)
      if (take(part, form.*name)) return true;
  return false;
}

// `text` with the number in place of "{}".
std::string numbered(std::string text, std::int32_t number) {
  const std::size_t at = text.find("{}");
  return at == text.npos ? text : text.replace(at, 2, std::to_string(number));
}

bool is_all_of(std::string_view text, std::string_view pattern, std::int32_t& number) {
  return !pattern.empty() && take_front(text, pattern, number) && text.empty();
}

// `module` with the family's own prefix.
std::optional<ModulePart> find_part(const WeightNames& names, std::string_view module) {
  for (const auto& [part, name] : kWhole)
    if (!(names.*name).empty() && names.*name == module) return ModulePart{.part = part};
  ModulePart found;
  if (!take_front(module, names.layer, found.layer)) return std::nullopt;
  const bool any = any_of_layer(names, [&](WeightPart part, std::string_view name) {
    found.part = part;
    found.expert = -1;
    return is_all_of(module, name, found.expert);
  });
  return any ? std::optional(found) : std::nullopt;
}

}  // namespace

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
  if (part.layer < 0) {
    for (const auto& [each, name] : kWhole)
      if (each == part.part && !(names.*name).empty()) return names.*name;
    return {};
  }
  std::string result;
  any_of_layer(names, [&](WeightPart each, const std::string& name) {
    const bool of_one = name.find("{}") != name.npos;
    if (each != part.part || name.empty() || of_one != (part.expert >= 0)) return false;
    result = names.layer_prefix(part.layer) + numbered(name, part.expert);
    return true;
  });
  return result;
}

std::optional<ModulePart> part_of(const WeightNames& names, std::string_view module) {
  // Without a wrapper's prefix, and then without one that stands instead of the family's.
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
