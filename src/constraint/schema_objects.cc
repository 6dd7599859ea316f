// SchemaPreparer: constraints on objects. Undeclared names are allowed only if `patternProperties` or
// `additionalProperties` requests them. Each name is written once, with all its requirements: a name that
// matches two patterns has those of both, and a declared name is never written as an undeclared one.
#include <algorithm>
#include <set>

#include "constraint/schema_preparer.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMaxOptionalPairs =
    90'000;                              // compiling is quadratic in an object's optional properties
constexpr std::size_t kMaxCombined = 3;  // maximum number of patterns that one name may match

json::value all_parts(json::array parts) {
  return parts.size() == 1 ? std::move(parts.front()) : json::value{{"allOf", std::move(parts)}};
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

Status SchemaPreparer::object_case(const json::object& object, const std::string& path, std::size_t depth,
                                   json::object& out) {
  PAGODA_RETURN_IF_ERROR(count(object, "minProperties", path, out, 2));
  PAGODA_RETURN_IF_ERROR(count(object, "maxProperties", path, out, 2));
  OpenNames open;
  PAGODA_RETURN_IF_ERROR(open_names(object, path, depth, open));
  json::object properties;
  std::set<std::string> never;
  const json::value* given_names = object.if_contains("propertyNames");
  const auto add = [&](std::string_view name, json::value schema, const std::string& place) {
    json::value part;
    if (given_names != nullptr) {
      const std::optional<bool> fits = satisfies(json::string(name), *given_names, context());
      if (!fits) return not_held("propertyNames", path, " together with 'properties'");
      if (!*fits) schema = false;
    }
    const Status status = prepare(schema, place, depth + 1, part);
    if (!status.ok() && status.reason() == kNoAnswer) {
      never.emplace(name);
      return ok_status();
    }
    PAGODA_RETURN_IF_ERROR(status);
    properties[name] = std::move(part);
    states_ += static_cast<std::int64_t>(name.size());
    return ok_status();
  };
  if (const json::value* given = object.if_contains("properties")) {
    if (!given->is_object()) return refuse(path, "has 'properties' that is not an object");
    for (const auto& entry : given->as_object()) {
      const std::string_view name(entry.key().data(), entry.key().size());
      json::value schema = entry.value();
      if (std::optional<json::value> more; !open.patterns.empty()) {
        OpenNames patterns = open;
        patterns.additional = nullptr;
        PAGODA_RETURN_IF_ERROR(by_patterns(name, patterns, path, more));
        if (more) schema = all_parts({std::move(schema), *std::move(more)});
      }
      PAGODA_RETURN_IF_ERROR(add(name, std::move(schema), at(path, concat("properties/", name))));
    }
  }
  json::array required;
  if (const json::value* given = object.if_contains("required")) {
    if (!given->is_array()) return refuse(path, "has a 'required' that is not a list");
    for (const json::value& value : given->as_array()) {
      if (!value.is_string()) return refuse(path, "has a 'required' that is not a list of names");
      if (std::ranges::find(required, value) != required.end()) continue;
      required.push_back(value);
      const std::string name(value.as_string());
      if (!properties.contains(name) && !never.contains(name)) {
        std::optional<json::value> schema;
        PAGODA_RETURN_IF_ERROR(by_patterns(name, open, path, schema));
        if (!schema && !object.contains("additionalProperties") && !object.contains("unevaluatedProperties"))
          schema = true;
        if (schema) PAGODA_RETURN_IF_ERROR(add(name, *std::move(schema), at(path, "additionalProperties")));
      }
      if (!properties.contains(name))
        return refuse(path, concat("requires '", name, "' and does not allow it"))
            .with_reason(std::string(kNoAnswer));
    }
  }
  const auto optional =
      static_cast<std::int64_t>(properties.size() - std::min(properties.size(), required.size()));
  if ((pairs_ += optional * optional) > kMaxOptionalPairs)
    return refuse(path, "has too many optional properties");
  const bool declared = !properties.empty();
  bool plain_names = true;
  for (const auto& entry : properties) {
    open.taken.emplace_back(entry.key());
    plain_names = plain_names && is_ascii(open.taken.back());
  }
  open.taken.insert(open.taken.end(), never.begin(), never.end());
  if (declared) out["properties"] = std::move(properties);
  if (!required.empty()) out["required"] = std::move(required);
  // Without any keyword: any object. Otherwise undeclared properties are omitted, which the schema permits.
  const json::value any(true);
  const bool anything = open.taken.empty() && open.patterns.empty() && open.additional == nullptr &&
                        !object.contains("additionalProperties") && !object.contains("unevaluatedProperties");
  if (anything) open.additional = &any;
  if (open.patterns.empty() && open.additional == nullptr) {
    out["additionalProperties"] = false;
    return ok_status();
  }
  if (out.contains("minProperties") && out.at("minProperties").as_int64() > 1)
    return not_held("minProperties", path, " for undeclared properties");  // a name could be written twice
  const bool simple = open.patterns.empty() && never.empty() && plain_names;
  if (!simple || (declared && given_names != nullptr)) return name_patterns(open, path, depth, out);
  json::value part;
  PAGODA_RETURN_IF_ERROR(prepare(*open.additional, at(path, "additionalProperties"), depth + 1, part));
  out["additionalProperties"] = std::move(part);
  if (given_names != nullptr) {
    PAGODA_RETURN_IF_ERROR(prepare(*given_names, at(path, "propertyNames"), depth + 1, part));
    out["propertyNames"] = std::move(part);
  }
  return ok_status();
}

Status SchemaPreparer::open_names(const json::object& object, const std::string& path, std::size_t depth,
                                  OpenNames& out) {
  const json::value* additional = object.if_contains("additionalProperties");
  if (additional == nullptr) additional = object.if_contains("unevaluatedProperties");
  if (additional != nullptr && *additional != false) out.additional = additional;
  if (const json::value* patterns = object.if_contains("patternProperties")) {
    if (!patterns->is_object()) return refuse(path, "has 'patternProperties' that is not an object");
    for (const auto& entry : patterns->as_object()) {
      const std::string_view pattern(entry.key());
      std::optional<PatternSet> set = set_of_pattern(pattern);
      if (!set || set->all.size() != 1 || !held(set->all.front()) || !held(printable_pattern(pattern)))
        return not_held("patternProperties", path, concat(" '", pattern.substr(0, 100), "'"));
      out.patterns.emplace_back(*std::move(set), entry.value());
    }
  }
  const json::value* names = object.if_contains("propertyNames");
  if (names == nullptr) return ok_status();
  json::value part;
  PAGODA_RETURN_IF_ERROR(prepare(*names, at(path, "propertyNames"), depth + 1, part));
  const json::object& prepared = part.as_object();
  if (!of_strings(prepared)) return not_held("propertyNames", path, " without keywords of strings");
  if (const json::value* pattern = prepared.if_contains("pattern")) {
    out.names = set_of_pattern(std::string_view(pattern->as_string()));
  } else if (const json::value* list = prepared.if_contains("enum")) {
    std::string either;
    for (const json::value& one : list->as_array())
      if (const auto text = literal_pattern(std::string_view(one.as_string())); text && !text->empty())
        either += (either.empty() ? "" : "|") + *text;
    if (!either.empty()) out.names = PatternSet{.all = {either}, .none = {}};
  }
  return ok_status();
}

Status SchemaPreparer::by_patterns(std::string_view name, const OpenNames& open, const std::string& path,
                                   std::optional<json::value>& out) {
  json::array said;
  for (const auto& [pattern, schema] : open.patterns) {
    const std::optional<bool> matches = patterns_.matches == nullptr
                                            ? std::nullopt
                                            : patterns_.matches(pattern.all.front(), std::string(name));
    if (!matches) return not_held("patternProperties", path, " together with 'properties'");
    if (*matches) said.push_back(schema);
  }
  if (said.empty() && open.additional != nullptr) said.push_back(*open.additional);
  if (!said.empty()) out = all_parts(std::move(said));
  return ok_status();
}

Status SchemaPreparer::name_patterns(const OpenNames& open, const std::string& path, std::size_t depth,
                                     json::object& out) {
  PatternSet others;  // names to exclude
  for (const std::string& name : open.taken) {
    const std::optional<std::string> literal = literal_pattern(name);
    if (!literal && !name.empty())
      return not_held(open.patterns.empty() ? "additionalProperties" : "patternProperties", path,
                      " together with a property of such a name");
    if (literal && !literal->empty()) others.none.push_back(*literal);
  }
  if (std::ranges::find(open.taken, "") != open.taken.end()) others.all.emplace_back("[^\\x00-\\x1f]+");
  if (open.names) {
    others.all.insert(others.all.end(), open.names->all.begin(), open.names->all.end());
    others.none.insert(others.none.end(), open.names->none.begin(), open.names->none.end());
  }
  json::object patterns;
  const auto add = [&](const std::string& pattern, const json::value& schema, std::string_view keyword) {
    if (!held(pattern)) return ok_status();  // no name matches
    json::value part;
    const Status status = prepare(schema, at(path, keyword), depth + 1, part);
    if (!status.ok() && status.reason() == kNoAnswer) return ok_status();
    PAGODA_RETURN_IF_ERROR(status);
    patterns[pattern] = std::move(part);
    states_ += static_cast<std::int64_t>(pattern.size());
    return states_ > kMaxStates ? too_large(path) : ok_status();
  };
  const std::size_t count = open.patterns.size();
  const bool combined = count <= kMaxCombined;
  for (std::size_t choice = 1; choice < (combined ? std::size_t{1} << count : count + 1); ++choice) {
    PatternSet set = others;
    json::array said;
    for (std::size_t i = 0; i < count; ++i) {
      const bool matches = combined ? (choice >> i & 1) != 0 : choice == i + 1;
      (matches ? set.all : set.none).push_back(open.patterns[i].first.all.front());
      if (matches) said.push_back(open.patterns[i].second);
    }
    PAGODA_RETURN_IF_ERROR(add(set.pattern(), all_parts(std::move(said)), "patternProperties"));
  }
  if (open.additional != nullptr) {
    PatternSet set = others;
    for (const auto& [pattern, schema] : open.patterns) set.none.push_back(pattern.all.front());
    PAGODA_RETURN_IF_ERROR(add(set.pattern(), *open.additional, "additionalProperties"));
  }
  if (!patterns.empty()) out["patternProperties"] = std::move(patterns);
  out["additionalProperties"] = false;
  return ok_status();
}

}  // namespace pagoda
