// Which values satisfy a schema, and which schemas exclude each other.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "base/utf8.h"
#include "constraint/pattern_sets.h"
#include "constraint/schema_merge.h"
#include "constraint/string_formats.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kMaxExcludedDepth = 16;
const std::set<std::string_view> kJudged = {"type",
                                            "enum",
                                            "const",
                                            "minimum",
                                            "maximum",
                                            "exclusiveMinimum",
                                            "exclusiveMaximum",
                                            "minLength",
                                            "maxLength",
                                            "pattern",
                                            "properties",
                                            "required",
                                            "items",
                                            "prefixItems",
                                            "minItems",
                                            "maxItems",
                                            "anyOf",
                                            "allOf",
                                            "oneOf",
                                            "not",
                                            "$ref",
                                            "$defs",
                                            "definitions",
                                            "minProperties",
                                            "maxProperties",
                                            "additionalProperties",
                                            "uniqueItems",
                                            "multipleOf",
                                            "format"};
// Keywords that apply to one kind of values: they do not constrain others.
const std::pair<std::string_view, std::set<std::string_view>> kOfKind[] = {
    {"object",
     {"patternProperties", "propertyNames", "unevaluatedProperties", "dependentRequired", "dependentSchemas",
      "dependencies"}},
    {"array", {"contains", "minContains", "maxContains", "additionalItems", "unevaluatedItems"}},
    {"string", {"format", "pattern"}}};
const std::set<std::string_view> kSilent = {"title",    "description", "default",  "examples",
                                            "example",  "deprecated",  "readOnly", "writeOnly",
                                            "$comment", "$schema",     "$id",      "discriminator"};
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

// The types that a schema names, counting integers as numbers; all types if it names none.
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
// The types that answers may have: if none is named, the first one that the keywords apply to.
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
    const double least = bound(high, "minimum", -kInfinite),
                 behind = bound(high, "exclusiveMinimum", -kInfinite);
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

std::optional<bool> judge(const json::value& value, const json::object& schema, const SchemaContext& context,
                          int depth);

std::optional<bool> judge_text(const json::string& text, const json::object& schema,
                               const SchemaContext& context) {
  const auto matches = [&](const std::string& pattern) {
    return context.matches == nullptr ? std::nullopt : context.matches(pattern, std::string(text));
  };
  bool known = true;
  if (const json::value* pattern = schema.if_contains("pattern");
      pattern != nullptr && pattern->is_string()) {
    const std::optional<std::string> whole = whole_pattern(std::string_view(pattern->as_string()));
    const std::optional<bool> fits = whole ? matches(*whole) : std::nullopt;
    if (fits == false) return false;
    known = fits.has_value();
  }
  if (const json::value* format = schema.if_contains("format"); format != nullptr && format->is_string()) {
    const StringFormat* const named = string_format(std::string_view(format->as_string()));
    known = known &&
            // The format may accept further texts.
            (named == nullptr || matches(std::string(named->pattern)) == true);
  }
  if (!known) return std::nullopt;
  return true;
}

std::optional<bool> judge_parts(const json::value& value, const json::object& schema,
                                const SchemaContext& context, int depth) {
  bool known = true;
  const auto part = [&](const json::value& one, const json::value& of) {
    const std::optional<bool> fits = satisfies(one, of, context, depth + 1);
    known = known && fits.has_value();
    return fits.value_or(true);
  };
  if (const json::object* object = value.if_object()) {
    const json::object* properties = properties_of(schema);
    const json::value* additional = schema.if_contains("additionalProperties");
    for (const auto& entry : *object) {
      const json::value* own = properties == nullptr ? nullptr : properties->if_contains(entry.key());
      if (own == nullptr && !schema.contains("patternProperties")) own = additional;
      if (own != nullptr && !part(entry.value(), *own)) return false;
    }
    if (const json::value* required = schema.if_contains("required");
        required != nullptr && required->is_array())
      for (const json::value& name : required->as_array())
        if (!name.is_string() || !object->contains(name.as_string())) return false;
  }
  if (const json::array* list = value.if_array()) {
    const json::value *items = schema.if_contains("items"), *prefix = schema.if_contains("prefixItems");
    if (items != nullptr && items->is_array()) std::swap(items, prefix);
    const json::array* first = prefix == nullptr ? nullptr : prefix->if_array();
    if (items != nullptr && items->is_array()) known = false;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const json::value* own = first != nullptr && i < first->size() ? &(*first)[i] : items;
      if (own != nullptr && !part((*list)[i], *own)) return false;
    }
    const json::value* unique = schema.if_contains("uniqueItems");
    for (std::size_t i = 0; unique != nullptr && *unique == true && i < list->size(); ++i)
      if (std::find(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(i), (*list)[i]) !=
          list->begin() + static_cast<std::ptrdiff_t>(i))
        return false;
  }
  if (!known) return std::nullopt;
  return true;
}

std::optional<bool> judge(const json::value& value, const json::object& schema, const SchemaContext& context,
                          int depth) {
  bool known = true;
  for (const auto& entry : schema) {
    const std::string_view word(entry.key().data(), entry.key().size());
    // Keywords unknown to JSON Schema have no effect; its own are plain words.
    const bool of_others = std::ranges::any_of(kOfKind, [&](const auto& kind) {
      return kind.first != type_of(value) && kind.second.contains(word);
    });
    if (!of_others && !kJudged.contains(word) && !kSilent.contains(word) && !word.starts_with("x-"))
      known = false;
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
    if (schema.contains("multipleOf")) {
      const double step = bound(schema, "multipleOf", 0);
      const bool whole =
          step >= 1 && step == std::floor(step) && number == std::floor(number) && std::abs(number) < 9e15;
      known = known && whole;
      if (whole && std::fmod(number, step) != 0) return false;
    }
  }
  if (const json::string* text = value.if_string()) {
    double length = 0;
    for (std::size_t at = 0; at < text->size(); at += utf8_length((*text)[at])) ++length;
    if (!within(length, "minLength", "maxLength")) return false;
    if (const std::optional<bool> matches = judge_text(*text, schema, context); !matches)
      known = false;
    else if (!*matches)
      return false;
  }
  if (value.is_array() && !within(static_cast<double>(value.as_array().size()), "minItems", "maxItems"))
    return false;
  if (value.is_object() &&
      !within(static_cast<double>(value.as_object().size()), "minProperties", "maxProperties"))
    return false;
  // {number that hold, total}.
  const auto each = [&](std::string_view word) -> std::pair<std::size_t, std::size_t> {
    std::size_t count = 0;
    const json::value* list = schema.if_contains(word);
    if (list == nullptr || !list->is_array()) return {1, 1};
    for (const json::value& part : list->as_array()) {
      const std::optional<bool> fits = satisfies(value, part, context, depth + 1);
      known = known && fits.has_value();
      count += fits.value_or(true) ? 1u : 0u;
    }
    return {count, list->as_array().size()};
  };
  const auto [all, of] = each("allOf");
  if (all < of || each("anyOf").first == 0) return false;
  if (const std::size_t one = each("oneOf").first; one == 0 || (known && one > 1)) return false;
  if (const json::value* other = schema.if_contains("not")) {
    const std::optional<bool> fits = satisfies(value, *other, context, depth + 1);
    known = known && fits.has_value();
    if (fits == true) return false;
  }
  if (const json::value* reference = schema.if_contains("$ref");
      reference != nullptr && reference->is_string()) {
    const json::value* target = context.find(std::string(reference->as_string()));
    const std::optional<bool> fits =
        target == nullptr ? std::nullopt : satisfies(value, *target, context, depth + 1);
    if (fits == false) return false;
    known = known && fits.has_value();
  }
  const std::optional<bool> parts = judge_parts(value, schema, context, depth);
  if (parts == false) return false;
  if (!known || !parts) return std::nullopt;
  return true;
}

bool objects_exclude(const json::object& first, const json::object& second, const SchemaContext& context,
                     std::string& tag, int depth) {
  const json::object *mine = properties_of(first), *theirs = properties_of(second);
  if (mine != nullptr && theirs != nullptr) {
    for (const bool required :
         {true, false})  // prefer an already required property to one that would become required
      for (const auto& entry : *mine) {
        const std::string_view name(entry.key().data(), entry.key().size());
        const json::value* other = theirs->if_contains(name);
        if (other == nullptr || requires_property(first, name) != required) continue;
        const Result<json::value> a = flatten_schema(entry.value(), context),
                                  b = flatten_schema(*other, context);
        std::string inner;
        if (!a || !b || !a->is_object() || !b->is_object()) continue;
        if (!excludes(a->as_object(), b->as_object(), context, inner, depth + 1) || !inner.empty()) continue;
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
  if (additional != nullptr && additional->is_bool() && !additional->as_bool() && own != nullptr &&
      own->is_array() && !second.contains("patternProperties"))
    for (const json::value& name : own->as_array())
      if (name.is_string() && (theirs == nullptr || !theirs->contains(name.as_string()))) return true;
  return false;
}

}  // namespace

std::optional<bool> satisfies(const json::value& value, const json::value& schema,
                              const SchemaContext& context, int depth) {
  if (schema.is_bool()) return schema.as_bool();
  if (!schema.is_object() || depth > kMaxExcludedDepth) return std::nullopt;
  return judge(value, schema.as_object(), context, depth);
}

bool excludes(const json::object& first, const json::object& second, const SchemaContext& context,
              std::string& tag, int depth) {
  if (depth > 4) return false;
  const auto mine = answer_types(first), theirs = named_types(second);
  std::set<std::string_view> both;
  std::ranges::set_intersection(mine, theirs, std::inserter(both, both.end()));
  if (both.empty()) return true;
  if (const auto values = values_of(first))
    return std::ranges::all_of(*values, [&](const json::value& value) {
      return satisfies(value, second, context) == false || satisfies(value, first, context) == false;
    });
  if (const auto values = values_of(second))
    return std::ranges::all_of(
        *values, [&](const json::value& value) { return satisfies(value, first, context) == false; });
  if (std::ranges::all_of(both, [](std::string_view type) { return type == "number" || type == "integer"; }))
    return ranges_exclude(first, second);
  if (both == std::set<std::string_view>{"string"})
    return bound(first, "maxLength", kInfinite) < bound(second, "minLength", 0) ||
           bound(second, "maxLength", kInfinite) < bound(first, "minLength", 0);
  return both == std::set<std::string_view>{"object"} && objects_exclude(first, second, context, tag, depth);
}

}  // namespace pagoda
