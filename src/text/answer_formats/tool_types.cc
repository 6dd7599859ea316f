#include "text/answer_formats/tool_types.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/python_literals.h"

namespace pagoda::answer {
namespace {

namespace json = boost::json;

enum Type : unsigned {
  kNull = 1,
  kInteger = 2,
  kNumber = 4,
  kBoolean = 8,
  kObject = 16,
  kArray = 32,
  kString = 64,
};

constexpr int kMaxReferences = 16;  // maximum chain length
constexpr int kMaxChoices =
    256;  // entries of anyOf and the like that one lookup visits: references can form a tree

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

unsigned type_named(std::string_view name) {
  static constexpr std::pair<std::string_view, unsigned> kNames[] = {
      {"null", kNull},      {"integer", kInteger}, {"int", kInteger},    {"int32", kInteger},
      {"int64", kInteger},  {"uint", kInteger},    {"uint32", kInteger}, {"uint64", kInteger},
      {"long", kInteger},   {"short", kInteger},   {"number", kNumber},  {"float", kNumber},
      {"float32", kNumber}, {"float64", kNumber},  {"double", kNumber},  {"boolean", kBoolean},
      {"bool", kBoolean},   {"object", kObject},   {"dict", kObject},    {"array", kArray},
      {"arr", kArray},      {"list", kArray},      {"sequence", kArray}, {"string", kString},
      {"str", kString},     {"text", kString},     {"varchar", kString}, {"char", kString},
      {"enum", kString},
  };
  const std::string wanted = lowered(trim(name));
  for (const auto& [known, type] : kNames)
    if (known == wanted) return type;
  return 0;
}

unsigned type_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return kNull;
    case json::kind::bool_:
      return kBoolean;
    case json::kind::int64:
    case json::kind::uint64:
      return kInteger;
    case json::kind::double_:
      return kNumber;
    case json::kind::string:
      return kString;
    case json::kind::array:
      return kArray;
    default:
      return kObject;
  }
}

// Resolves "#/$defs/Location" in the tool's own schema.
const json::value* resolve(const json::value* schema, const DeclaredTool* tool) {
  for (int hops = 0; schema != nullptr && tool != nullptr && hops < kMaxReferences; ++hops) {
    const json::object* object = schema->if_object();
    const json::value* reference = object ? object->if_contains("$ref") : nullptr;
    if (reference == nullptr || !reference->is_string()) break;
    std::string_view path = view(reference->get_string());
    if (!path.starts_with("#/")) break;
    path.remove_prefix(2);
    const json::value* at = nullptr;
    for (const json::object* in = &tool->parameters; in != nullptr;) {
      const std::size_t slash = path.find('/');
      at = in->if_contains(path.substr(0, slash));
      if (slash == std::string_view::npos || at == nullptr) break;
      path.remove_prefix(slash + 1);
      in = at->if_object();
      at = nullptr;
    }
    if (at == nullptr) break;
    schema = at;
  }
  return schema;
}

unsigned allowed_types(const json::value* schema, const DeclaredTool* tool, int& budget) {
  schema = resolve(schema, tool);
  const json::object* object = schema ? schema->if_object() : nullptr;
  if (object == nullptr || --budget < 0) return kString;
  unsigned types = 0;
  bool named = false;  // a type is given, even if unknown
  if (const json::value* type = object->if_contains("type")) {
    if (type->is_string()) {
      types |= type_named(view(type->get_string()));
      named = true;
    } else if (type->is_array()) {
      for (const json::value& one : type->get_array()) {
        if (!one.is_string()) continue;
        types |= type_named(view(one.get_string()));
        named = true;
      }
    }
  }
  if (const json::value* values = object->if_contains("enum"); values && values->is_array())
    for (const json::value& one : values->get_array()) types |= type_of(one);
  if (const json::value* only = object->if_contains("const")) types |= type_of(*only);
  for (const char* choices : {"anyOf", "oneOf", "allOf"}) {
    const json::value* list = object->if_contains(choices);
    if (list == nullptr || !list->is_array()) continue;
    for (const json::value& one : list->get_array()) types |= allowed_types(&one, tool, budget);
  }
  return types == 0 && !named ? static_cast<unsigned>(kString) : types;
}

unsigned allowed_types(const json::value* schema, const DeclaredTool* tool) {
  int budget = kMaxChoices;
  return allowed_types(schema, tool, budget);
}

// Adds the values that a schema lists, directly or in each of its choices; false if it accepts other values,
// too.
bool add_listed(const json::value* schema, const DeclaredTool* tool, int& budget,
                std::vector<const json::value*>& values) {
  schema = resolve(schema, tool);
  const json::object* object = schema ? schema->if_object() : nullptr;
  if (object == nullptr || --budget < 0) return false;
  if (const json::value* only = object->if_contains("const")) {
    values.push_back(only);
    return true;
  }
  if (const json::value* list = object->if_contains("enum"); list && list->is_array()) {
    for (const json::value& one : list->get_array()) values.push_back(&one);
    return true;
  }
  for (const char* choices : {"anyOf", "oneOf"}) {
    const json::value* list = object->if_contains(choices);
    if (list == nullptr || !list->is_array() || list->get_array().empty()) continue;
    return std::ranges::all_of(
        list->get_array(), [&](const json::value& one) { return add_listed(&one, tool, budget, values); });
  }
  return false;
}

bool is_same(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
  return a == b;
}

// True for text that reads as a number but occurs only as a string among the listed values: ["1", "2", 3].
bool is_listed_text(std::string_view text, const json::value& read, const json::value* schema,
                    const DeclaredTool* tool) {
  std::vector<const json::value*> values;
  int budget = kMaxChoices;
  if (read.is_string() || !add_listed(schema, tool, budget, values)) return false;
  const auto lists = [&](const json::value& wanted) {
    return std::ranges::any_of(values, [&](const json::value* one) { return is_same(*one, wanted); });
  };
  return !lists(read) && lists(json::value(json::string(text)));
}

// Parses like Python's int(): surrounding white space, a sign, digits with single underscores between them.
std::optional<json::value> read_integer(std::string_view text) {
  text = trim(text);
  std::string digits;
  const bool negative = text.starts_with('-');
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (text[i] == '_' && between) continue;
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    digits += text[i];
  }
  if (digits.empty()) return std::nullopt;
  const std::string signed_digits = (negative ? "-" : "") + digits;
  std::int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  if (std::from_chars(signed_digits.data(), end, value).ec == std::errc()) return json::value(value);
  double large = 0;
  if (std::from_chars(signed_digits.data(), end, large).ec != std::errc()) return std::nullopt;
  return json::value(large);
}

std::optional<json::value> read_number(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  if (value == std::floor(value) && std::abs(value) < 9e15)
    return json::value(static_cast<std::int64_t>(value));
  return json::value(value);
}

bool is_finite(const json::value& value) {
  if (value.is_double()) return std::isfinite(value.get_double());
  if (value.is_array()) {
    for (const json::value& one : value.get_array())
      if (!is_finite(one)) return false;
  } else if (value.is_object()) {
    for (const auto& [key, one] : value.get_object())
      if (!is_finite(one)) return false;
  }
  return true;
}

std::optional<json::value> read_json(std::string_view text, ToolTypes::Reading reading) {
  std::optional<json::value> value = parse_json(text);
  if (!value && reading.python) value = parse_python_literal(text);
  if (value && !is_finite(*value)) value.reset();
  return value;
}

// Converts the text to the first allowed type that it parses as.
json::value read_as(unsigned types, std::string_view text, const DeclaredTool* tool,
                    const json::value* schema, ToolTypes::Reading reading) {
  const std::string word = lowered(trim(text));
  if ((types & kNull) && lowered(text) == "null") return nullptr;
  if (types & kInteger)
    if (auto value = read_integer(text)) return *std::move(value);
  if (types & kNumber)
    if (auto value = read_number(text)) return *std::move(value);
  if (types & kBoolean) {
    if (word == "true" || word == "1") return true;
    if (word == "false" || word == "0") return false;
  }
  if (types & (kObject | kArray))
    if (auto value = read_json(text, reading)) return ToolTypes::coerced(*std::move(value), tool, schema);
  if (types & kString) return json::value(json::string(text));
  if (auto value = read_json(text, reading)) return *std::move(value);
  return json::value(json::string(text));
}

}  // namespace

const DeclaredTool* ToolTypes::find(std::string_view name) const {
  if (tools_ == nullptr) return nullptr;
  for (const DeclaredTool& tool : *tools_)
    if (tool.name == name) return &tool;
  return nullptr;
}

const json::value* ToolTypes::property(const DeclaredTool* tool, std::string_view key) {
  if (tool == nullptr) return nullptr;
  const json::value* properties = tool->parameters.if_contains("properties");
  return properties && properties->is_object() ? properties->get_object().if_contains(key) : nullptr;
}

bool ToolTypes::allows_text(const DeclaredTool* tool, const json::value* schema) {
  return schema != nullptr && (allowed_types(schema, tool) & kString) != 0;
}

json::value ToolTypes::from_text(std::string_view text, const DeclaredTool* tool, const json::value* schema,
                                 Reading reading) {
  if (schema == nullptr) return json::value(json::string(text));
  json::value value = read_as(allowed_types(schema, tool), text, tool, schema, reading);
  if (is_listed_text(text, value, schema, tool)) return json::value(json::string(text));
  return value;
}

json::value ToolTypes::coerced(json::value value, const DeclaredTool* tool, const json::value* schema) {
  schema = resolve(schema, tool);
  const json::object* object = schema ? schema->if_object() : nullptr;
  if (object == nullptr) return value;
  if (value.is_object()) {
    const json::value* properties = object->if_contains("properties");
    if (properties == nullptr || !properties->is_object()) return value;
    for (auto& member : value.get_object())
      if (const json::value* inner = properties->get_object().if_contains(member.key()))
        member.value() = coerced(std::move(member.value()), tool, inner);
    return value;
  }
  if (value.is_array()) {
    if (const json::value* items = object->if_contains("items"))
      for (json::value& one : value.get_array()) one = coerced(std::move(one), tool, items);
    return value;
  }
  const unsigned types = allowed_types(schema, tool);
  if (value.is_string()) {
    if (types == kString) return value;
    return from_text(view(value.get_string()), tool, schema);
  }
  if (types & type_of(value)) return value;
  return from_text(dump_json(value), tool, schema);
}

}  // namespace pagoda::answer
