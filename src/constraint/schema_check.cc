#include "constraint/schema_check.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/assign_or_return.h"
#include "constraint/schema_addresses.h"
#include "constraint/schema_preparer.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxCheckedDepth = 64;

// Keywords for any value; the first one present decides, and keywords beside it must be consistent with it.
const Keywords kDeciding = {"$ref", "const", "enum", "anyOf", "oneOf"};
const Keywords kNeverHeld = {"$dynamicRef", "$recursiveRef", "propertyDependencies"};

// True if the schema is only a reference.
bool only_refers(json::object schema) {
  for (const std::string_view name :
       {"$defs", "definitions", "title", "description", "default", "examples", "$comment", "$schema", "$id"})
    schema.erase(name);
  return schema.size() == 1 && schema.contains("$ref");
}

// Unescapes a part of a JSON pointer in a URI fragment.
std::optional<std::string> unescaped(std::string_view part) {
  std::string out;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      out.push_back(part[i]);
      continue;
    }
    if (i + 2 >= part.size() || digit(part[i + 1]) < 0 || digit(part[i + 2]) < 0) return std::nullopt;
    out.push_back(static_cast<char>(digit(part[i + 1]) * 16 + digit(part[i + 2])));
    i += 2;
  }
  for (std::size_t tilde = out.find('~'); tilde != std::string::npos; tilde = out.find('~', tilde + 1)) {
    if (tilde + 1 >= out.size() || (out[tilde + 1] != '0' && out[tilde + 1] != '1')) return std::nullopt;
    out.replace(tilde, 2, out[tilde + 1] == '0' ? "~" : "/");
  }
  return out;
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
  if (depth > kMaxCheckedDepth) return refuse(path, "is nested more than 64 levels deep");
  if ((states_ += 8) > kMaxStates) return too_large(path);
  if (schema.is_bool()) {
    if (!schema.as_bool())
      return refuse(path, "is false, which no answer can satisfy").with_reason(std::string(kNoAnswer));
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
  PAGODA_RETURN_IF_ERROR(rewrite(object, path, depth));
  for (const std::string_view keyword : kDeciding)
    if (object.contains(keyword)) return decided(keyword, object, path, depth);
  return typed(object, path, depth);
}

Status SchemaPreparer::decided(std::string_view keyword, json::object& object, const std::string& path,
                               std::size_t depth) {
  if (keyword == "const" || keyword == "enum") {
    PAGODA_RETURN_IF_ERROR(enumerated(object, path));
  } else if (keyword == "$ref") {
    PAGODA_ASSIGN_OR_RETURN(std::string name, follow(object.at("$ref"), path));
    object = {{"$ref", concat("#/$defs/", name)}};
  } else {
    PAGODA_RETURN_IF_ERROR(alternatives(keyword, object, path, depth));
  }
  return states_ > kMaxStates ? too_large(path) : ok_status();
}

Status SchemaPreparer::enumerated(json::object& object, const std::string& path) {
  const std::string keyword = object.contains("const") ? "const" : "enum";
  const json::value values = keyword == "const" ? json::array{object.at("const")} : object.at("enum");
  if (!values.is_array() || values.as_array().empty())
    return refuse(path, "has an 'enum' that is not a non-empty list");
  json::object rest = object;
  rest.erase(keyword);
  json::array fit;
  for (const json::value& entry : values.as_array()) {
    const std::optional<bool> fits = satisfies(entry, rest, context());
    if (!fits) return not_held(keyword, path, " and keywords with which its values cannot be compared");
    if (*fits) fit.push_back(entry);
  }
  if (fit.empty())
    return refuse(path, concat("has no value in '", keyword, "' that satisfies the rest of the schema"))
        .with_reason(std::string(kNoAnswer));
  states_ += static_cast<std::int64_t>(json::serialize(fit).size());
  object = {{"enum", std::move(fit)}};
  return ok_status();
}

Status SchemaPreparer::alternatives(std::string_view keyword, json::object& object, const std::string& path,
                                    std::size_t depth) {
  const json::value value = object.at(keyword);
  if (!value.is_array() || value.as_array().empty())
    return refuse(path, concat("has a '", keyword, "' that is not a non-empty list"));
  json::object rest = object;
  rest.erase(keyword);
  json::object unevaluated;
  for (const std::string_view name : {"unevaluatedProperties", "unevaluatedItems"})
    if (const json::value* found = rest.if_contains(name)) {
      unevaluated[name] = *found;
      rest.erase(name);
    }
  for (const std::string_view name : {"$defs", "definitions"}) rest.erase(name);
  json::array cases;
  for (const json::value& option : value.as_array()) {
    if (option.is_bool() && !option.as_bool()) continue;  // never applies
    if (rest.empty() && unevaluated.empty()) {
      cases.push_back(option);
      continue;
    }
    json::object both = unevaluated;
    both["allOf"] = json::array{rest, option};
    cases.push_back(std::move(both));
  }
  std::vector<std::string> names;
  if (keyword == "oneOf" && cases.size() > 1) PAGODA_RETURN_IF_ERROR(exclude_each_other(cases, path, names));
  names.resize(cases.size());
  json::array parts;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!names[i].empty()) {
      parts.push_back({{"$ref", concat("#/$defs/", names[i])}});
      continue;
    }
    json::value part;
    const Status status = prepare(cases[i], at(path, concat(keyword, "/", i)), depth + 1, part);
    if (!status.ok() && status.reason() == kNoAnswer) continue;
    PAGODA_RETURN_IF_ERROR(status);
    parts.push_back(std::move(part));
  }
  if (parts.empty())
    return refuse(path, concat("has no '", keyword, "' that an answer can satisfy"))
        .with_reason(std::string(kNoAnswer));
  object = {{"anyOf", std::move(parts)}};
  return ok_status();
}

// Rewrites alternatives of which exactly one may hold to alternatives that exclude each other. A property
// that distinguishes them becomes required: without it, several would hold.
Status SchemaPreparer::exclude_each_other(json::array& cases, const std::string& path,
                                          std::vector<std::string>& names) {
  constexpr std::size_t kMaxCases = 200;
  if (cases.size() > kMaxCases) return not_held("oneOf", path, " with that many cases");
  json::array flat, typed, given;
  std::vector<std::string> tags;  // additional required property of a case
  for (const json::value& one : cases) {
    Result<json::value> made = flatten_schema(one, context());
    if (!made && made.error().reason() == kNoAnswer) continue;
    if (!made) return refuse(path, made.error().message());
    if (*made == false) continue;
    if (*made == true) *made = json::object();
    // The distinguishing property is required of the values that the cases apply to.
    const std::string_view kind = kind_of(made->as_object());
    typed.push_back(*made);
    if (!kind.empty()) typed.back().as_object()["type"] = json::string(kind);
    tags.push_back(kind.empty() ? std::string() : concat(" as ", kind));
    flat.push_back(*std::move(made));
    given.push_back(one == true ? json::value(json::object()) : one);
  }
  std::vector<json::array> others(flat.size());  // the alternatives that could also hold
  for (std::size_t i = 0; i < flat.size(); ++i)
    for (std::size_t j = 0; j < flat.size(); ++j) {
      if (i == j) continue;
      std::string tag;
      if (!excludes(typed[i].as_object(), flat[j].as_object(), context(), tag)) {
        if (flat[i] == flat[j]) {  // equal cases always hold together
          others[i] = {json::value(true)};
        } else if (!negated(flat[j], context())) {
          return not_held("oneOf", path, " whose cases are not known to exclude each other");
        } else {
          others[i].push_back(given[j]);
        }
        continue;
      }
      if (tag.empty()) continue;
      json::value& required = typed[i].as_object()["required"];
      if (!required.is_array()) required = json::array();
      required.as_array().push_back(json::string(tag));
      tags[i] += concat(" with ", tag);
    }
  names.resize(flat.size());
  for (std::size_t i = 0; i < flat.size(); ++i) {
    if (!others[i].empty()) {
      json::array all = {tags[i].empty() ? given[i] : std::move(typed[i])};
      for (json::value& other : others[i]) all.push_back({{"not", std::move(other)}});
      given[i] = {{"allOf", std::move(all)}};
      continue;
    }
    if (tags[i].empty()) continue;
    const json::object& own = given[i].as_object();
    if (!only_refers(own)) {
      given[i] = std::move(typed[i]);
      continue;
    }
    // A separate definition: otherwise a schema that refers back to itself would be expanded forever.
    const std::string place = std::string(own.at("$ref").as_string()) + tags[i];
    const auto [known, fresh] = names_.try_emplace(place, concat("r", names_.size()));
    if (fresh) pending_.push_back({place, &made_.emplace_back(std::move(typed[i]))});
    names[i] = known->second;
  }
  cases = std::move(given);
  return ok_status();
}

Result<std::string> SchemaPreparer::follow(const json::value& reference, const std::string& path) {
  std::set<std::string> chain;
  const json::value* uri = &reference;
  while (true) {
    if (!uri->is_string()) return refuse(path, "has a '$ref' that is not a string");
    const std::string target(uri->as_string());
    if (!chain.insert(target).second) return refuse(path, "has a '$ref' that leads back to itself");
    const json::value* found = find(target);
    if (found == nullptr) return not_held("$ref", path, concat(" to '", target.substr(0, 100), "'"));
    if (const json::object* next = found->if_object(); next != nullptr && only_refers(*next)) {
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
  if (!target.starts_with("#/")) return nullptr;
  const json::value* found = &root_;
  for (std::size_t begin = 2; begin <= target.size() && found != nullptr;) {
    const std::size_t end = std::min(target.find('/', begin), target.size());
    const std::optional<std::string> key = unescaped(std::string_view(target).substr(begin, end - begin));
    if (!key) return nullptr;
    if (const json::array* list = found->if_array()) {
      const bool number =
          !key->empty() && key->size() < 6 && key->find_first_not_of("0123456789") == std::string::npos;
      const std::size_t index = number ? std::stoul(*key) : list->size();
      found = index < list->size() ? &(*list)[index] : nullptr;
    } else {
      const json::object* object = found->if_object();
      found = object == nullptr ? nullptr : object->if_contains(*key);
    }
    begin = end + 1;
  }
  return found;
}

std::string_view SchemaPreparer::kind_of(const json::object& object) {
  for (const std::string_view word : {"type", "enum", "const", "anyOf", "oneOf", "$ref"})
    if (object.contains(word)) return "";
  for (const auto& [kind, words] : {std::pair("object", &kOfObjects), std::pair("array", &kOfArrays),
                                    std::pair("string", &kOfStrings), std::pair("number", &kOfNumbers)})
    if (std::ranges::any_of(*words, [&](std::string_view word) { return object.contains(word); }))
      return kind;
  return "";
}

Status SchemaPreparer::case_of(const std::string& type, const json::object& object, const std::string& path,
                               std::size_t depth, json::object& out) {
  if (type == "object") return object_case(object, path, depth, out);
  if (type == "array") return array_case(object, path, depth, out);
  if (type == "string") return string_case(object, path, out);
  if (type == "number" || type == "integer") return number_case(object, path, type, out);
  if (type == "boolean" || type == "null") return ok_status();
  return refuse(path, concat("has the unknown type '", type.substr(0, 100), "'"));
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
    if (const std::string_view kind = kind_of(object); !kind.empty()) types.emplace_back(kind);
  }
  json::array cases;
  Status none = ok_status();  // status of the first case that no answer satisfies
  const bool named = object.contains("type");
  for (std::size_t i = 0; i < types.size(); ++i) {
    json::object one = {{"type", types[i]}};
    const Status status = case_of(types[i], object, path, depth, one);
    if (!status.ok() && status.reason() == kNoAnswer) {
      none = status;
      // If no type is given, the keywords do not constrain values of other kinds.
      if (!named && i == 0)
        for (const std::string_view other : {"object", "array", "string", "number", "boolean", "null"})
          if (other != types[0]) types.emplace_back(other);
      continue;
    }
    PAGODA_RETURN_IF_ERROR(status);
    cases.push_back(std::move(one));
  }
  if (cases.empty() && !types.empty()) return none;
  json::object out;
  if (cases.size() == 1) out = std::move(cases.front().as_object());
  if (cases.size() > 1) out["anyOf"] = std::move(cases);
  object = std::move(out);
  return states_ > kMaxStates ? too_large(path) : ok_status();
}

namespace {

// Removes `keyword` at `path`. If the original schema does not contain it there, reduces the deepest existing
// part on the path to its type. False if there is nothing left to remove.
bool leave_out(json::value& schema, std::string_view path, const std::string& keyword) {
  json::value* part = &schema;
  bool whole = true;
  path.remove_prefix(std::min<std::size_t>(path.size(), 2));
  while (!path.empty() && whole) {
    const std::string key(path.substr(0, path.find('/')));
    json::value* next = nullptr;
    if (json::object* object = part->if_object()) {
      next = object->if_contains(key);
    } else if (json::array* list = part->if_array();
               list != nullptr && !key.empty() && key.find_first_not_of("0123456789") == std::string::npos &&
               key.size() < 6 && std::stoul(key) < list->size()) {
      next = &(*list)[std::stoul(key)];
    }
    whole = next != nullptr;
    if (whole) part = next;
    if (whole) path.remove_prefix(std::min(path.size(), key.size() + 1));
  }
  json::object* object = part->if_object();
  if (whole && object != nullptr && !keyword.empty() && object->contains(keyword)) {
    const json::value cases = object->at(keyword);
    object->erase(keyword);
    // At least one of the cases.
    if (keyword == "oneOf" && !object->contains("anyOf")) (*object)["anyOf"] = cases;
    return true;
  }
  const json::value* type = object == nullptr ? nullptr : object->if_contains("type");
  json::value rest = json::object();
  if (type != nullptr && !type->is_null()) rest.as_object()["type"] = *type;
  if (*part == rest || part->is_array()) return false;
  *part = std::move(rest);
  return true;
}

}  // namespace

Result<json::value> prepare_most(const json::value& schema, const PatternChecks& patterns,
                                 std::vector<std::string>& dropped) {
  constexpr int kMaxDropped = 200;
  json::value left = references_by_place(schema);
  for (int i = 0;; ++i) {
    SchemaPreparer preparer(left, patterns);
    json::value out;
    const Status status = preparer.prepare_all(out);
    if (status.ok()) return out;
    if (i == kMaxDropped || !leave_out(left, preparer.refused_path(), preparer.refused_keyword()))
      return status;
    dropped.push_back(preparer.refused_keyword().empty()
                          ? preparer.refused_path()
                          : concat(preparer.refused_keyword(), " at ", preparer.refused_path()));
  }
}

Result<json::value> prepare_schema(const json::value& schema, const PatternChecks& patterns) {
  const json::value placed = references_by_place(schema);
  SchemaPreparer preparer(placed, patterns);
  json::value out;
  if (Status status = preparer.prepare_all(out); !status.ok()) return status;
  return out;
}

}  // namespace pagoda
