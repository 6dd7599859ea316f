// Which values satisfy a schema, and which schemas exclude each other.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "base/utf8.h"
#include "constraint/schema_merge.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kMaxDepth = 16;
const std::set<std::string_view> kJudged = {
    "type",     "enum",       "const",      "minimum",  "maximum",    "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "properties", "required", "items",      "minItems",         "maxItems",
    "anyOf",    "allOf",      "$ref",       "$defs",    "definitions", "minProperties",   "maxProperties"};
const std::set<std::string_view> kSilent = {"title",      "description", "default",  "examples",  "example",
                                            "deprecated", "readOnly",    "writeOnly", "$comment", "$schema",
                                            "$id",        "discriminator"};
const std::set<std::string_view> kAll = {"object", "array", "string", "number", "integer", "boolean", "null"};

std::string_view type_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::object:
      return "object";
    case json::kind::array:
      return "array";
    case json::kind::string:
      return "string";
    case json::kind::bool_:
      return "boolean";
    case json::kind::null:
      return "null";
    default:
      return value.to_number<double>() == std::floor(value.to_number<double>()) ? "integer" : "number";
  }
}

// The types that a schema names, integers with numbers; all where it names none.
std::set<std::string_view> named_types(const json::object& schema) {
  std::set<std::string_view> out;
  if (const json::value* type = schema.if_contains("type")) {
    const auto add = [&](const json::value& one) {
      if (!one.is_string()) return;
      out.insert(std::string_view(one.as_string()));
      if (one == "number") out.insert("integer");
    };
    if (type->is_array())
      for (const json::value& one : type->as_array()) add(one);
    else
      add(*type);
    return out;
  }
  if (const json::value* one = schema.if_contains("const")) return {type_of(*one)};
  if (const json::value* list = schema.if_contains("enum"); list != nullptr && list->is_array()) {
    for (const json::value& one : list->as_array()) out.insert(type_of(one));
    return out;
  }
  return kAll;
}
// The types that answers have: where none is named, the first that the keywords are about.
std::set<std::string_view> answer_types(const json::object& schema) {
  const auto named = named_types(schema);
  if (named.size() < kAll.size() || schema.contains("anyOf") || schema.contains("oneOf")) return named;
  for (const std::string_view word : {"properties", "required", "additionalProperties"})
    if (schema.contains(word)) return {"object"};
  for (const std::string_view word : {"items", "prefixItems", "minItems", "maxItems"})
    if (schema.contains(word)) return {"array"};
  return named;
}

std::optional<json::array> values_of(const json::object& schema) {
  if (const json::value* one = schema.if_contains("const")) return json::array{*one};
  if (const json::value* list = schema.if_contains("enum"); list != nullptr && list->is_array())
    return list->as_array();
  return std::nullopt;
}

double bound(const json::object& schema, std::string_view name, double otherwise) {
  const json::value* value = schema.if_contains(name);
  return value != nullptr && value->is_number() ? value->to_number<double>() : otherwise;
}
constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool ranges_exclude(const json::object& first, const json::object& second) {
  const auto below = [](const json::object& low, const json::object& high) {
    const double most = bound(low, "maximum", kInfinite), before = bound(low, "exclusiveMaximum", kInfinite);
    const double least = bound(high, "minimum", -kInfinite), behind = bound(high, "exclusiveMinimum", -kInfinite);
    const double top = std::min(most, before), bottom = std::max(least, behind);
    return top < bottom || (top == bottom && std::isfinite(top) && (before == top || behind == bottom));
  };
  return below(first, second) || below(second, first);
}

const json::object* properties_of(const json::object& schema) {
  const json::value* found = schema.if_contains("properties");
  return found == nullptr ? nullptr : found->if_object();
}
bool requires_property(const json::object& schema, std::string_view name) {
  const json::value* required = schema.if_contains("required");
  return required != nullptr && required->is_array() &&
         std::ranges::any_of(required->as_array(), [&](const json::value& one) {
           return one.is_string() && std::string_view(one.as_string()) == name;
         });
}
bool closed(const json::object& schema) {
  const json::value* additional = schema.if_contains("additionalProperties");
  return (additional == nullptr || (additional->is_bool() && !additional->as_bool())) &&
         !schema.contains("patternProperties") && !schema.contains("propertyNames") &&
         !schema.contains("unevaluatedProperties") &&
         (schema.contains("properties") || schema.contains("required") || additional != nullptr);
}

std::optional<bool> judge(const json::value& value, const json::object& schema, const FindSchema& find, int depth);

std::optional<bool> judge_parts(const json::value& value, const json::object& schema, const FindSchema& find,
                                int depth) {
  bool known = true;
  const auto part = [&](const json::value& one, const json::value& of) {
    const std::optional<bool> fits = satisfies(one, of, find, depth + 1);
    known = known && fits.has_value();
    return fits.value_or(true);
  };
  if (const json::object* object = value.if_object()) {
    if (const json::object* properties = properties_of(schema))
      for (const auto& entry : *properties)
        if (const json::value* own = object->if_contains(entry.key()); own != nullptr && !part(*own, entry.value()))
          return false;
    if (const json::value* required = schema.if_contains("required"); required != nullptr && required->is_array())
      for (const json::value& name : required->as_array())
        if (!name.is_string() || !object->contains(name.as_string())) return false;
  }
  if (const json::array* list = value.if_array())
    if (const json::value* items = schema.if_contains("items"))
      for (const json::value& one : *list) {
        if (items->is_array()) known = false;
        if (!items->is_array() && !part(one, *items)) return false;
      }
  if (!known) return std::nullopt;
  return true;
}

std::optional<bool> judge(const json::value& value, const json::object& schema, const FindSchema& find, int depth) {
  bool known = true;
  for (const auto& entry : schema) {
    const std::string_view word(entry.key().data(), entry.key().size());
    // Keywords that JSON Schema does not know say nothing; those it knows are written without other signs.
    if (!kJudged.contains(word) && !kSilent.contains(word) && !word.starts_with("x-")) known = false;
  }
  if (schema.contains("type")) {
    const auto types = named_types(schema);
    if (!types.contains(type_of(value))) return false;
  }
  if (const auto values = values_of(schema))
    if (std::ranges::find(*values, value) == values->end()) return false;
  const auto within = [&](double size, std::string_view least, std::string_view most) {
    return size >= bound(schema, least, -kInfinite) && size <= bound(schema, most, kInfinite);
  };
  if (value.is_number()) {
    const double number = value.to_number<double>();
    if (!within(number, "minimum", "maximum") || number <= bound(schema, "exclusiveMinimum", -kInfinite) ||
        number >= bound(schema, "exclusiveMaximum", kInfinite))
      return false;
  }
  if (const json::string* text = value.if_string()) {
    double length = 0;
    for (std::size_t at = 0; at < text->size(); at += utf8_length((*text)[at])) ++length;
    if (!within(length, "minLength", "maxLength")) return false;
  }
  if (value.is_array() && !within(static_cast<double>(value.as_array().size()), "minItems", "maxItems"))
    return false;
  if (value.is_object() && !within(static_cast<double>(value.as_object().size()), "minProperties", "maxProperties"))
    return false;
  const auto each = [&](std::string_view word) -> std::pair<bool, bool> {  // all, one
    bool all = true, one = false;
    const json::value* list = schema.if_contains(word);
    if (list == nullptr || !list->is_array()) return {true, true};
    for (const json::value& part : list->as_array()) {
      const std::optional<bool> fits = satisfies(value, part, find, depth + 1);
      known = known && fits.has_value();
      all = all && fits.value_or(true);
      one = one || fits.value_or(true);
    }
    return {all, one};
  };
  if (!each("allOf").first || !each("anyOf").second) return false;
  if (const json::value* reference = schema.if_contains("$ref"); reference != nullptr && reference->is_string()) {
    const json::value* target = find(std::string(reference->as_string()));
    const std::optional<bool> fits =
        target == nullptr ? std::nullopt : satisfies(value, *target, find, depth + 1);
    if (fits == false) return false;
    known = known && fits.has_value();
  }
  const std::optional<bool> parts = judge_parts(value, schema, find, depth);
  if (parts == false) return false;
  if (!known || !parts) return std::nullopt;
  return true;
}

bool objects_exclude(const json::object& first, const json::object& second, const FindSchema& find,
                     std::string& tag, int depth) {
  const json::object *mine = properties_of(first), *theirs = properties_of(second);
  if (mine != nullptr && theirs != nullptr) {
    for (const bool required : {true, false})  // one that has to be there is better than one that would have to
      for (const auto& entry : *mine) {
        const std::string_view name(entry.key().data(), entry.key().size());
        const json::value* other = theirs->if_contains(name);
        if (other == nullptr || requires_property(first, name) != required) continue;
        const Result<json::value> a = flatten_schema(entry.value(), find), b = flatten_schema(*other, find);
        std::string inner;
        if (!a || !b || !a->is_object() || !b->is_object()) continue;
        if (!excludes(a->as_object(), b->as_object(), find, inner, depth + 1) || !inner.empty()) continue;
        if (!required) tag = name;
        return true;
      }
  }
  const json::value* needed = second.if_contains("required");
  if (closed(first) && needed != nullptr && needed->is_array())
    for (const json::value& name : needed->as_array())
      if (name.is_string() && !requires_property(first, std::string_view(name.as_string())) &&
          (mine == nullptr || !mine->contains(name.as_string())))
        return true;
  const json::value* additional = second.if_contains("additionalProperties");
  const json::value* own = first.if_contains("required");
  if (additional != nullptr && additional->is_bool() && !additional->as_bool() && own != nullptr && own->is_array() &&
      !second.contains("patternProperties"))
    for (const json::value& name : own->as_array())
      if (name.is_string() && (theirs == nullptr || !theirs->contains(name.as_string()))) return true;
  return false;
}

}  // namespace

std::optional<bool> satisfies(const json::value& value, const json::value& schema, const FindSchema& find,
                              int depth) {
  if (schema.is_bool()) return schema.as_bool();
  if (!schema.is_object() || depth > kMaxDepth) return std::nullopt;
  return judge(value, schema.as_object(), find, depth);
}

bool excludes(const json::object& first, const json::object& second, const FindSchema& find, std::string& tag,
              int depth) {
  if (depth > 4) return false;
  const auto mine = answer_types(first), theirs = named_types(second);
  std::set<std::string_view> both;
  std::ranges::set_intersection(mine, theirs, std::inserter(both, both.end()));
  if (both.empty()) return true;
  if (const auto values = values_of(first))
    return std::ranges::all_of(*values, [&](const json::value& value) {
      return satisfies(value, second, find) == false || satisfies(value, first, find) == false;
    });
  if (const auto values = values_of(second))
    return std::ranges::all_of(*values,
                               [&](const json::value& value) { return satisfies(value, first, find) == false; });
  if (std::ranges::all_of(both, [](std::string_view type) { return type == "number" || type == "integer"; }))
    return ranges_exclude(first, second);
  if (both == std::set<std::string_view>{"string"})
    return bound(first, "maxLength", kInfinite) < bound(second, "minLength", 0) ||
           bound(second, "maxLength", kInfinite) < bound(first, "minLength", 0);
  return both == std::set<std::string_view>{"object"} && objects_exclude(first, second, find, tag, depth);
}

}  // namespace pagoda
