// SchemaPreparer: keywords expressed by others. The answers of a rewritten schema all satisfy the given one;
// if the rewriting would lose answers that a reader of the schema expects, the keyword is refused.
#include <algorithm>
#include <set>

#include "constraint/schema_preparer.h"

namespace pagoda {
namespace {

// A null value here means absent: Go programs write it so.
const Keywords kNeverNull = {"properties",
                             "required",
                             "items",
                             "prefixItems",
                             "$defs",
                             "definitions",
                             "anyOf",
                             "oneOf",
                             "allOf",
                             "enum",
                             "type",
                             "$ref",
                             "pattern",
                             "format",
                             "minimum",
                             "maximum",
                             "multipleOf",
                             "minLength",
                             "maxLength",
                             "minItems",
                             "maxItems",
                             "uniqueItems",
                             "additionalProperties",
                             "patternProperties",
                             "propertyNames",
                             "not",
                             "if",
                             "then",
                             "else",
                             "dependentRequired",
                             "dependentSchemas",
                             "exclusiveMinimum",
                             "exclusiveMaximum",
                             "minProperties",
                             "maxProperties"};

bool asserts(std::string_view keyword) {
  for (const Keywords* list : {&kOfObjects, &kOfArrays, &kOfStrings, &kOfNumbers})
    if (std::ranges::find(*list, keyword) != list->end()) return true;
  for (const std::string_view word :
       {"type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "$ref"})
    if (keyword == word) return true;
  return false;
}

void require(json::object& object, std::string_view name) {
  json::value& required = object["required"];
  if (!required.is_array()) required = json::array();
  json::array& list = required.as_array();
  if (std::ranges::find(list, json::value(name)) == list.end()) list.push_back(json::string(name));
}

}  // namespace

Status SchemaPreparer::rewrite(json::object& object, const std::string& path, std::size_t depth) {
  for (const std::string_view name : kNeverNull)
    if (const json::value* value = object.if_contains(name); value != nullptr && value->is_null())
      object.erase(name);
  for (int round = 0; round < 32; ++round) {
    const bool beside = std::ranges::any_of(object, [](const auto& entry) {
      return entry.key() != "$ref" && asserts(std::string_view(entry.key().data(), entry.key().size()));
    });
    if (object.contains("allOf") || (object.contains("$ref") && beside)) {
      Result<json::value> flat = flatten_schema(object, context());
      if (!flat) return refuse(path, flat.error().message()).with_reason(flat.error().reason());
      object = flat->as_object();
      drop_annotations(object);
    } else if (object.contains("dependentRequired") || object.contains("dependentSchemas") ||
               object.contains("dependencies")) {
      rewrite_dependents(object);
    } else if (object.contains("if") || object.contains("then") || object.contains("else")) {
      rewrite_conditions(object);
    } else if (object.contains("not")) {
      PAGODA_RETURN_IF_ERROR(rewrite_not(object, path));
    } else if (object.contains("contains") || object.contains("minContains") ||
               object.contains("maxContains")) {
      PAGODA_RETURN_IF_ERROR(rewrite_contains(object, path));
    } else {
      rewrite_names(object);
      return ok_status();
    }
    if ((states_ += 8) > kMaxStates || depth > 64) return too_large(path);
  }
  return refuse(path, "has too many keywords that must be combined");
}

// Makes a property's dependents always required, if the property may occur.
void SchemaPreparer::rewrite_dependents(json::object& object) {
  json::array all;
  std::vector<std::string> required;
  for (const std::string_view word : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const json::value* list = object.if_contains(word);
    const json::object* properties =
        object.contains("properties") ? object.at("properties").if_object() : nullptr;
    const bool closed = properties != nullptr && !properties->empty() &&
                        !object.contains("additionalProperties") && !object.contains("patternProperties") &&
                        !object.contains("unevaluatedProperties");
    const json::value* needed = object.if_contains("required");
    const auto comes = [&](std::string_view name) {
      return !closed || properties->contains(name) ||
             (needed != nullptr && needed->is_array() &&
              std::ranges::find(needed->as_array(), json::value(json::string(name))) !=
                  needed->as_array().end());
    };
    if (list != nullptr && list->is_object())
      for (const auto& entry : list->as_object()) {
        if (!comes(std::string_view(entry.key())) &&
            std::ranges::find(required, entry.key()) == required.end())
          continue;
        if (const json::array* names = entry.value().if_array()) {
          for (const json::value& name : *names)
            if (name.is_string()) required.emplace_back(name.as_string());
        } else if (entry.value() == false) {
          all.push_back({{"properties", json::object{{entry.key(), false}}}});
        } else if (entry.value() != true) {
          all.push_back(entry.value());
        }
      }
  }
  for (const std::string_view word : {"dependentRequired", "dependentSchemas", "dependencies"})
    object.erase(word);
  for (const std::string& name : required) require(object, name);
  if (all.empty()) return;
  all.insert(all.begin(), json::value(object));
  object = {{"allOf", std::move(all)}};
}

Status SchemaPreparer::rewrite_not(json::object& object, const std::string& path) {
  const json::value given = object.at("not");
  object.erase("not");
  if (given.is_bool()) {
    if (!given.as_bool()) return ok_status();
    return refuse(path, "has 'not' of everything, which no answer can satisfy")
        .with_reason(std::string(kNoAnswer));
  }
  Result<json::value> flat = flatten_schema(given, context());
  if (!flat && flat.error().reason() == kNoAnswer) return ok_status();
  if (!flat) return refuse(path, flat.error().message());
  if (flat->is_bool() || !flat->is_object()) return not_held("not", path);
  json::object& other = flat->as_object();
  drop_annotations(other);
  if (other.empty())
    return refuse(path, "has 'not' of everything, which no answer can satisfy")
        .with_reason(std::string(kNoAnswer));
  std::string tag;
  json::object typed = object;
  if (const std::string_view kind = kind_of(object); !kind.empty()) typed["type"] = json::string(kind);
  if (excludes(typed, other, context(), tag) && tag.empty()) {
    object = std::move(typed);
    return ok_status();
  }
  if (object.contains("enum") || object.contains("const")) {
    const bool one = object.contains("const");
    json::array kept;
    for (const json::value& value : one ? json::array{object.at("const")} : object.at("enum").as_array()) {
      const auto fits = satisfies(value, other, context());
      if (!fits) return not_held("not", path);
      if (!*fits) kept.push_back(value);
    }
    object.erase("const");
    object["enum"] = kept;
    if (kept.empty()) return refuse(path, "allows no value").with_reason(std::string(kNoAnswer));
    return ok_status();
  }
  std::optional<json::value> rest = negated(other, context());
  if (!rest) return not_held("not", path);
  if (*rest == false)
    return refuse(path, "has 'not' of everything, which no answer can satisfy")
        .with_reason(std::string(kNoAnswer));
  object = {{"allOf", json::array{object, *std::move(rest)}}};
  return ok_status();
}

// The first items are those that the list must contain; if their number is bounded, the remaining items must
// not match.
Status SchemaPreparer::rewrite_contains(json::object& object, const std::string& path) {
  const auto count_of = [&](std::string_view name, std::int64_t otherwise) {
    const json::value* value = object.if_contains(name);
    return value == nullptr ? otherwise
           : value->is_number() && value->to_number<double>() >= 0 && value->to_number<double>() < 1000
               ? static_cast<std::int64_t>(value->to_number<double>())
               : -2;
  };
  const std::int64_t least = count_of("minContains", 1), most = count_of("maxContains", -1);
  const bool contains = object.contains("contains");
  const json::value wanted = contains ? object.at("contains") : json::value(true);
  if (least == -2 || most == -2) return not_held("contains", path, " with such a count");
  for (const std::string_view name : {"contains", "minContains", "maxContains"}) object.erase(name);
  if (!contains) return ok_status();
  if (most >= 0 && most < least)
    return refuse(path, "has a 'minContains' above its 'maxContains', which no answer can satisfy")
        .with_reason(std::string(kNoAnswer));
  // Normalises the keywords for items.
  Result<json::value> flat = flatten_schema(json::value(object), context());
  if (!flat) return refuse(path, flat.error().message()).with_reason(flat.error().reason());
  if (object.contains("items") && object.at("items").is_array())
    return not_held("contains", path, " together with a list of 'items'");
  json::array prefix = object.contains("prefixItems") && object.at("prefixItems").is_array()
                           ? object.at("prefixItems").as_array()
                           : json::array();
  const json::value* items = object.if_contains("items");
  json::value rest = items == nullptr ? json::value(true) : *items;
  if (object.contains("unevaluatedItems")) {  // contained items are evaluated: no others are allowed
    if (items == nullptr) rest = wanted;
    object.erase("unevaluatedItems");
    object["items"] = rest;
    items = object.if_contains("items");
  }
  for (std::size_t i = 0; std::cmp_less(i, std::max<std::int64_t>(least, std::ssize(prefix))); ++i) {
    if (i >= prefix.size()) prefix.push_back(rest);
    if (std::cmp_less(i, least))
      prefix[i] = json::value{{"allOf", json::array{prefix[i], wanted}}};
    else if (most >= 0)
      prefix[i] = json::value{{"allOf", json::array{prefix[i], json::value{{"not", wanted}}}}};
  }
  if (!prefix.empty()) object["prefixItems"] = std::move(prefix);
  if (most >= 0)
    object["items"] =
        rest == false ? rest : json::value{{"allOf", json::array{rest, json::value{{"not", wanted}}}}};
  else if (items == nullptr)
    object["items"] = true;
  const json::value* at_least = object.if_contains("minItems");
  if (at_least == nullptr ||
      (at_least->is_number() && at_least->to_number<double>() < static_cast<double>(least)))
    object["minItems"] = least;
  return ok_status();
}

// Rewrites a boolean `propertyNames`: all names are allowed, or none.
void SchemaPreparer::rewrite_names(json::object& object) {
  const json::value* names = object.if_contains("propertyNames");
  if (names == nullptr || !names->is_bool()) return;
  if (!names->as_bool()) object["maxProperties"] = 0;
  object.erase("propertyNames");
}

}  // namespace pagoda
