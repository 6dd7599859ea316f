#include "constraint/schema_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "constraint/schema_preparer.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxDepth = 64;

// About any value; the first of them that is there decides, and what stands beside it has to agree.
const Keywords kDeciding = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
const Keywords kNeverHeld = {"not",
                             "if",
                             "then",
                             "else",
                             "dependentRequired",
                             "dependentSchemas",
                             "dependencies",
                             "contains",
                             "minContains",
                             "maxContains",
                             "$dynamicRef",
                             "$recursiveRef",
                             "propertyDependencies"};

bool among(const Keywords& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

std::string_view type_of(const json::value& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  if (value.is_null()) return "null";
  if (value.is_double() && value.as_double() != std::floor(value.as_double())) return "number";
  return "integer";
}

}  // namespace

Status SchemaPreparer::prepare_all(json::value& out) {
  PAGODA_RETURN_IF_ERROR(prepare(root_, "#", 0, out));
  json::object definitions;
  while (!pending_.empty()) {
    const Definition next = pending_.back();
    pending_.pop_back();
    json::value part;
    PAGODA_RETURN_IF_ERROR(prepare(*next.schema, next.path, next.schema == &root_ ? 0 : 1, part));
    definitions[names_.at(next.path)] = std::move(part);
  }
  if (!definitions.empty()) out.as_object()["$defs"] = std::move(definitions);
  return ok_status();
}

Status SchemaPreparer::prepare(const json::value& schema, const std::string& path, std::size_t depth,
                               json::value& out) {
  if (depth > kMaxDepth) return refuse(path, "is nested more than 64 deep");
  if ((states_ += 8) > kMaxStates) return too_large(path);
  if (schema.is_bool()) {
    if (!schema.as_bool()) return refuse(path, "is false, which no answer can satisfy");
    out = json::object();
    return ok_status();
  }
  if (!schema.is_object()) return refuse(path, "must be an object or true");
  out = schema;
  json::object& object = out.as_object();
  if (depth > 0 && object.contains("$id")) return not_held("$id", path, " of its own");
  drop_annotations(object);
  for (const std::string_view keyword : kNeverHeld)
    if (object.contains(keyword)) return not_held(keyword, path);
  for (const std::string_view keyword : kDeciding)
    if (object.contains(keyword)) return decided(keyword, object, path, depth);
  return typed(object, path, depth);
}

Status SchemaPreparer::decided(std::string_view keyword, json::object& object, const std::string& path,
                               std::size_t depth) {
  json::value value = object.at(keyword);
  const std::optional<json::value> type =
      object.contains("type") ? std::optional(object.at("type")) : std::nullopt;
  const bool checks_type = keyword == "const" || keyword == "enum";
  for (const auto& entry : object) {
    const std::string_view other(entry.key().data(), entry.key().size());
    if (other == keyword || (other == "type" && checks_type) || other == "$defs" || other == "definitions")
      continue;
    const bool says_something = other == "type" || among(kDeciding, other) || among(kOfObjects, other) ||
                                among(kOfArrays, other) || among(kOfStrings, other) ||
                                among(kOfNumbers, other);
    if (says_something) return not_held(other, path, concat(" beside '", keyword, "'"));
  }
  json::object kept;
  if (checks_type) {
    if (keyword == "const") value = json::array{value};
    if (!value.is_array() || value.as_array().empty())
      return refuse(path, "has an 'enum' that is no list, or empty");
    json::array fit;
    for (const json::value& entry : value.as_array())
      if (!type || fits(entry, *type)) fit.push_back(entry);
    if (fit.empty()) return refuse(path, concat("has no value in '", keyword, "' of its 'type'"));
    states_ += static_cast<std::int64_t>(json::serialize(fit).size());
    kept["enum"] = std::move(fit);
  } else if (keyword == "$ref") {
    Result<std::string> name = follow(value, path);
    if (!name) return name.error();
    kept["$ref"] = concat("#/$defs/", *name);
  } else {
    if (!value.is_array() || value.as_array().empty())
      return refuse(path, concat("has a '", keyword, "' that is no list, or empty"));
    json::array parts;
    for (std::size_t i = 0; i < value.as_array().size(); ++i) {
      json::value part;
      const json::value& option = value.as_array()[i];
      if (keyword != "allOf" && option.is_bool() && !option.as_bool()) continue;  // nobody's case
      PAGODA_RETURN_IF_ERROR(prepare(option, at(path, concat(keyword, "/", i)), depth + 1, part));
      parts.push_back(std::move(part));
    }
    if (parts.empty()) return refuse(path, concat("has no '", keyword, "' that an answer can satisfy"));
    if (keyword == "allOf" && parts.size() > 1) return not_held("allOf", path, " of more than one");
    kept[keyword] = std::move(parts);
  }
  object = std::move(kept);
  return states_ > kMaxStates ? too_large(path) : ok_status();
}

bool SchemaPreparer::fits(const json::value& value, const json::value& type) {
  if (const json::array* types = type.if_array())
    return std::ranges::any_of(*types, [&](const json::value& one) { return fits(value, one); });
  if (!type.is_string()) return false;
  const std::string_view name(type.as_string());
  return name == type_of(value) || (name == "number" && type_of(value) == "integer");
}

Result<std::string> SchemaPreparer::follow(const json::value& reference, const std::string& path) {
  std::set<std::string> chain;
  const json::value* uri = &reference;
  while (true) {
    if (!uri->is_string()) return refuse(path, "has a '$ref' that is no string");
    const std::string target(uri->as_string());
    if (!chain.insert(target).second) return refuse(path, "has a '$ref' that leads back to itself");
    const json::value* found = find(target);
    if (found == nullptr) return not_held("$ref", path, concat(" to '", target.substr(0, 100), "'"));
    if (const json::object* next = found->if_object(); next != nullptr && next->contains("$ref")) {
      uri = &next->at("$ref");
      continue;
    }
    const auto [known, fresh] = names_.try_emplace(target, concat("r", names_.size()));
    if (fresh) pending_.push_back({target, found});
    return known->second;
  }
}

const json::value* SchemaPreparer::find(const std::string& target) const {
  if (target == "#") return &root_;
  if (!target.starts_with("#/") || target.find_first_of("~%") != std::string::npos) return nullptr;
  const json::value* found = &root_;
  for (std::size_t begin = 2; begin <= target.size() && found != nullptr;) {
    const std::size_t end = std::min(target.find('/', begin), target.size());
    const json::object* object = found->if_object();
    found = object == nullptr ? nullptr : object->if_contains(target.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

Status SchemaPreparer::typed(json::object& object, const std::string& path, std::size_t depth) {
  std::vector<std::string> types;
  if (const json::value* type = object.if_contains("type")) {
    const json::array one = type->is_array() ? type->as_array() : json::array{*type};
    for (const json::value& entry : one) {
      if (!entry.is_string()) return refuse(path, "has a 'type' that is neither a name nor a list of names");
      types.emplace_back(entry.as_string());
    }
    if (types.empty()) return refuse(path, "has an empty 'type'");
  } else {
    const auto has_one = [&](const Keywords& words) {
      return std::ranges::any_of(words, [&](std::string_view word) { return object.contains(word); });
    };
    if (has_one(kOfObjects))
      types.emplace_back("object");
    else if (has_one(kOfArrays))
      types.emplace_back("array");
    else if (has_one(kOfStrings))
      types.emplace_back("string");
    else if (has_one(kOfNumbers))
      types.emplace_back("number");
  }
  json::array cases;
  for (const std::string& type : types) {
    json::object one = {{"type", type}};
    if (type == "object")
      PAGODA_RETURN_IF_ERROR(object_case(object, path, depth, one));
    else if (type == "array")
      PAGODA_RETURN_IF_ERROR(array_case(object, path, depth, one));
    else if (type == "string")
      PAGODA_RETURN_IF_ERROR(string_case(object, path, one));
    else if (type == "number" || type == "integer")
      PAGODA_RETURN_IF_ERROR(number_case(object, path, type, one));
    else if (type != "boolean" && type != "null")
      return refuse(path, concat("has the unknown type '", type.substr(0, 100), "'"));
    cases.push_back(std::move(one));
  }
  json::object out;
  if (cases.size() == 1) out = std::move(cases.front().as_object());
  if (cases.size() > 1) out["anyOf"] = std::move(cases);
  object = std::move(out);
  return states_ > kMaxStates ? too_large(path) : ok_status();
}

Result<json::value> prepare_schema(const json::value& schema, HoldsPattern holds_pattern) {
  SchemaPreparer preparer(schema, holds_pattern);
  json::value out;
  if (Status status = preparer.prepare_all(out); !status.ok()) return status;
  return out;
}

}  // namespace pagoda
