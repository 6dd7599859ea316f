#include "constraint/schema_merge.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/strings.h"
#include "constraint/pattern_sets.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kMaxMergedDepth = 32;     // schemas nested in allOf and $ref
constexpr std::size_t kMaxCases = 256;  // combined alternatives

// Keywords whose requirements may differ between two schemas. Other keywords require nothing.
const std::set<std::string_view> kAsserting = {"type",
                                               "enum",
                                               "const",
                                               "anyOf",
                                               "oneOf",
                                               "not",
                                               "if",
                                               "then",
                                               "else",
                                               "$ref",
                                               "$dynamicRef",
                                               "$recursiveRef",
                                               "required",
                                               "additionalProperties",
                                               "patternProperties",
                                               "propertyNames",
                                               "minProperties",
                                               "maxProperties",
                                               "unevaluatedProperties",
                                               "dependentRequired",
                                               "dependentSchemas",
                                               "dependencies",
                                               "propertyDependencies",
                                               "items",
                                               "additionalItems",
                                               "minItems",
                                               "maxItems",
                                               "uniqueItems",
                                               "contains",
                                               "minContains",
                                               "maxContains",
                                               "unevaluatedItems",
                                               "minLength",
                                               "maxLength",
                                               "pattern",
                                               "format",
                                               "minimum",
                                               "maximum",
                                               "exclusiveMinimum",
                                               "exclusiveMaximum",
                                               "multipleOf"};

Status cannot(std::string_view keyword, std::string_view why = " in more than one schema") {
  return invalid_argument(concat("has '", keyword, "'", why, ", which is not supported"));
}

Status never(std::string_view why) {
  return invalid_argument(concat(why, ", which no answer can satisfy")).with_reason(std::string(kNoAnswer));
}

json::value all_of(json::value a, json::value b) {
  if (a == b || (b.is_bool() && b.as_bool())) return a;
  if (a.is_bool()) return a.as_bool() ? std::move(b) : std::move(a);
  if (b.is_bool()) return b;
  return {{"allOf", json::array{std::move(a), std::move(b)}}};
}

// Merges two schemas without `$ref` and `allOf`.
class Merger {
 public:
  Merger(json::object into, json::object other) : into_(std::move(into)), other_(std::move(other)) {}

  Result<json::value> merged() {
    PAGODA_RETURN_IF_ERROR(objects());
    PAGODA_RETURN_IF_ERROR(arrays());
    for (auto& entry : other_) PAGODA_RETURN_IF_ERROR(keyword(std::string(entry.key()), entry.value()));
    return json::value(std::move(into_));
  }

 private:
  static json::object properties_of(json::object& schema) {
    const json::value* found = schema.if_contains("properties");
    json::object out = found != nullptr && found->is_object() ? found->as_object() : json::object();
    schema.erase("properties");
    return out;
  }
  // Applies one side's rule for undeclared properties to properties that only the other side declares.
  static Status add_additional(json::object& properties, const json::object& own, json::object& schema,
                               const json::object& others) {
    const json::value* additional = schema.if_contains("additionalProperties");
    if (additional == nullptr || (additional->is_bool() && additional->as_bool())) return ok_status();
    for (const auto& entry : others) {
      if (own.contains(entry.key())) continue;
      if (schema.contains("patternProperties")) return cannot("patternProperties");
      properties[entry.key()] = all_of(properties.at(entry.key()), *additional);
    }
    return ok_status();
  }
  Status objects() {
    const bool any = into_.contains("properties") || other_.contains("properties");
    const json::object first = properties_of(into_), second = properties_of(other_);
    json::object properties = first;
    for (const auto& entry : second)
      properties[entry.key()] = properties.contains(entry.key())
                                    ? all_of(properties.at(entry.key()), entry.value())
                                    : entry.value();
    PAGODA_RETURN_IF_ERROR(add_additional(properties, first, into_, second));
    PAGODA_RETURN_IF_ERROR(add_additional(properties, second, other_, first));
    if (any) into_["properties"] = std::move(properties);
    return ok_status();
  }

  // Renames draft 7's item keywords to the newer ones.
  static void rename_items(json::object& schema) {
    const json::value* items = schema.if_contains("items");
    if (items == nullptr || !items->is_array()) return;
    schema["prefixItems"] = json::value(*items);
    schema.erase("items");
    if (const json::value* rest = schema.if_contains("additionalItems")) schema["items"] = json::value(*rest);
    schema.erase("additionalItems");
  }
  Status arrays() {
    rename_items(into_);
    rename_items(other_);
    const auto list = [](json::object& schema) {
      json::value* found = schema.if_contains("prefixItems");
      json::array out = found != nullptr && found->is_array() ? found->as_array() : json::array();
      schema.erase("prefixItems");
      return out;
    };
    const json::array first = list(into_), second = list(other_);
    const json::value *rest = into_.if_contains("items"), *others = other_.if_contains("items");
    json::array prefix;
    for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
      const json::value any(true);
      const json::value& a = i < first.size() ? first[i] : rest != nullptr ? *rest : any;
      const json::value& b = i < second.size() ? second[i] : others != nullptr ? *others : any;
      prefix.push_back(all_of(a, b));
    }
    if (!prefix.empty()) into_["prefixItems"] = std::move(prefix);
    return ok_status();
  }

  Status keyword(const std::string& name, const json::value& value) {
    if (!into_.contains(name)) {
      if (name == "const" && into_.contains("enum")) return keyword("enum", json::array{value});
      if (name == "enum" && into_.contains("const")) {
        into_["enum"] = json::array{into_.at("const")};
        into_.erase("const");
      } else {
        into_[name] = value;
        return ok_status();
      }
    }
    json::value& own = into_[name];
    if (own == value) return ok_status();
    if (!kAsserting.contains(name))
      return ok_status();  // an annotation, or definitions: references are resolved in the whole schema
    if (name == "type") return types(own, value);
    if (name == "required") return lists(own, value, /*common=*/false);
    if (name == "enum") return lists(own, value, /*common=*/true);
    if (name == "const") {
      return never("asks for two values at once");
    }
    if (name == "additionalProperties" || name == "items" || name == "propertyNames" ||
        name == "unevaluatedProperties" || name == "unevaluatedItems") {
      own = all_of(std::move(own), value);
      return ok_status();
    }
    if (name == "patternProperties" && own.is_object() && value.is_object()) {
      for (const auto& entry : value.as_object()) {
        json::object& all = own.as_object();
        all[entry.key()] =
            all.contains(entry.key()) ? all_of(all.at(entry.key()), entry.value()) : entry.value();
      }
      return ok_status();
    }
    if (name == "anyOf" && own.is_array() && value.is_array()) return alternatives(own, value.as_array());
    if (name == "oneOf" && !into_.contains("anyOf")) {  // both must hold independently
      into_["anyOf"] = json::array{{{"oneOf", value}}};
      return ok_status();
    }
    if (name == "not") {
      own = {{"anyOf", json::array{own, value}}};
      return ok_status();
    }
    if (name == "pattern") return patterns(own, value);
    if (name.starts_with("dependent") && own.is_object() && value.is_object()) {
      dependents(own.as_object(), value.as_object());
      return ok_status();
    }
    if (name == "uniqueItems" && own.is_bool() && value.is_bool()) {
      own = true;
      return ok_status();
    }
    return numbers(name, own, value);
  }

  static Status types(json::value& own, const json::value& value) {
    const auto list = [](const json::value& one) {
      return one.is_array() ? one.as_array() : json::array{one};
    };
    json::array both;
    for (const json::value& a : list(own))
      for (const json::value& b : list(value)) {
        const json::value* common = a == b || (a == "integer" && b == "number") ? &a
                                    : a == "number" && b == "integer"           ? &b
                                                                                : nullptr;
        if (common != nullptr && std::ranges::find(both, *common) == both.end()) both.push_back(*common);
      }
    if (both.empty()) return never("asks for two types at once");
    own = both.size() == 1 ? both.front() : json::value(std::move(both));
    return ok_status();
  }
  static Status lists(json::value& own, const json::value& value, bool common) {
    if (!own.is_array() || !value.is_array())
      return cannot(common ? "enum" : "required", " that is not a list");
    json::array out = common ? json::array() : own.as_array();
    for (const json::value& entry : value.as_array()) {
      const bool known = std::ranges::find(own.as_array(), entry) != own.as_array().end();
      if (known == common) out.push_back(entry);
    }
    if (common && out.empty()) return never("has no value that satisfies all that it asks for");
    own = std::move(out);
    return ok_status();
  }
  static Status alternatives(json::value& own, const json::array& others) {
    json::array out;
    for (const json::value& a : own.as_array())
      for (const json::value& b : others) out.push_back(all_of(a, b));
    if (out.size() > kMaxCases) return cannot("anyOf");
    own = std::move(out);
    return ok_status();
  }
  static Status patterns(json::value& own, const json::value& value) {
    if (!own.is_string() || !value.is_string()) return cannot("pattern", " that is not a string");
    std::optional<PatternSet> both = set_of_pattern(std::string_view(own.as_string()));
    const std::optional<PatternSet> other = set_of_pattern(std::string_view(value.as_string()));
    if (!both || !other) return cannot("pattern");
    both->all.insert(both->all.end(), other->all.begin(), other->all.end());
    both->none.insert(both->none.end(), other->none.begin(), other->none.end());
    own = json::string(both->pattern());
    return ok_status();
  }
  static void dependents(json::object& own, const json::object& others) {
    for (const auto& entry : others) {
      json::value& known = own[entry.key()];
      if (known.is_array() && entry.value().is_array())
        known.as_array().insert(known.as_array().end(), entry.value().as_array().begin(),
                                entry.value().as_array().end());
      else
        known = known.is_null() ? entry.value() : all_of(std::move(known), entry.value());
    }
  }
  static Status numbers(const std::string& name, json::value& own, const json::value& value) {
    if (!own.is_number() || !value.is_number()) return cannot(name);
    const double a = own.to_number<double>(), b = value.to_number<double>();
    if (name == "minimum" || name == "exclusiveMinimum" || name == "minLength" || name == "minItems" ||
        name == "minProperties") {
      if (b > a) own = value;
    } else if (name == "maximum" || name == "exclusiveMaximum" || name == "maxLength" || name == "maxItems" ||
               name == "maxProperties") {
      if (b < a) own = value;
    } else if (name == "multipleOf" && a >= 1 && b >= 1 && a == std::floor(a) && b == std::floor(b) &&
               a < 1e6 && b < 1e6) {
      own = std::lcm(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
    } else {
      return cannot(name);
    }
    return ok_status();
  }

  json::object into_, other_;
};

class Flattener {
 public:
  explicit Flattener(const SchemaContext& context) : context_(context) {}

  Result<json::value> flat(const json::value& schema, int depth) {
    const json::object* object = schema.if_object();
    if (object == nullptr) return schema;
    if (depth > kMaxMergedDepth) return cannot("$ref", " that leads back to itself");
    json::object own = *object;
    if (depth > 0) rewrite_conditions(own);  // conditions of one part must not combine with those of another
    if (depth > 0 && own.contains("$id")) return cannot("$id", " of its own");
    json::array parts;
    if (const json::value* all = own.if_contains("allOf")) {
      if (!all->is_array() || all->as_array().empty())
        return invalid_argument("has an 'allOf' that is not a non-empty list");
      for (const json::value& part : all->as_array()) parts.push_back(part);
    }
    if (const json::value* reference = own.if_contains("$ref")) {
      if (!reference->is_string()) return invalid_argument("has a '$ref' that is not a string");
      const json::value* target = context_.find(std::string(reference->as_string()));
      if (target == nullptr)
        return cannot("$ref", concat(" to '", std::string_view(reference->as_string()).substr(0, 100), "'"));
      parts.push_back(*target);
    }
    const json::value unevaluated = take(own, "unevaluatedProperties"), rest = take(own, "unevaluatedItems");
    own.erase("allOf");
    own.erase("$ref");
    json::value out = json::object();
    parts.push_back(
        // In the property order that readers expect: inherited properties first, then its own.
        std::move(own));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Result<json::value> next = parts[i];
      if (i + 1 < parts.size()) next = flat(parts[i], depth + 1);
      if (!next) return next;
      if (next->is_bool()) {
        if (!next->as_bool()) return never("is false");
        continue;
      }
      if (!next->is_object()) return invalid_argument("must be an object or true");
      Result<json::value> merged = Merger(std::move(out.as_object()), next->as_object()).merged();
      if (!merged) return merged;
      out = *std::move(merged);
    }
    put_unevaluated(out.as_object(), unevaluated, rest);
    return out;
  }

 private:
  static json::value take(json::object& object, std::string_view name) {
    const json::value* found = object.if_contains(name);
    if (found == nullptr) return {};
    json::value out = *found;
    object.erase(name);
    return out;
  }
  // Each alternative must apply this itself, since only it knows the properties it evaluates.
  static void put_unevaluated(json::object& out, const json::value& properties, const json::value& items) {
    bool open = false;
    for (const std::string_view word : {"anyOf", "oneOf", "if", "not"}) open = open || out.contains(word);
    if (!properties.is_null() && !out.contains("additionalProperties"))
      out[open ? "unevaluatedProperties" : "additionalProperties"] = properties;
    const bool listed = out.contains("items") && out.at("items").is_array();
    if (!items.is_null() && !listed && !out.contains("items"))
      out[open ? "unevaluatedItems" : "items"] = items;
    if (!items.is_null() && listed && !out.contains("additionalItems"))
      out[open ? "unevaluatedItems" : "additionalItems"] = items;
  }

  const SchemaContext& context_;
};

}  // namespace

void rewrite_conditions(json::object& object) {
  const auto take = [&](std::string_view name) {
    const json::value* found = object.if_contains(name);
    json::value out = found == nullptr ? json::value(true) : *found;
    object.erase(name);
    return out;
  };
  const bool conditional = object.contains("if");
  const json::value condition = take("if"), then = take("then"), otherwise = take("else");
  if (!conditional || (then == true && otherwise == true)) return;
  json::value cases = {{"anyOf", json::array{{{"allOf", json::array{condition, then}}},
                                             {{"allOf", json::array{{{"not", condition}}, otherwise}}}}}};
  object = {{"allOf", json::array{object, std::move(cases)}}};
}

Result<json::value> flatten_schema(const json::value& schema, const SchemaContext& context) {
  return Flattener(context).flat(schema, 0);
}

}  // namespace pagoda
