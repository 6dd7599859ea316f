// Schemas for the values that do not satisfy a schema. Each keyword with a requirement gives an alternative:
// the values that violate it. Alternatives that cannot be expressed are omitted, so that the result covers
// fewer values, never others.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "constraint/pattern_sets.h"
#include "constraint/schema_merge.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kMaxNegatedDepth = 8;
constexpr std::string_view kTypes[] = {"object", "array", "string", "number", "boolean", "null"};

json::value not_of(const json::value& schema) { return {{"not", schema}}; }

std::string_view plain_type_of(const json::value& value) {
  return value.is_object()   ? "object"
         : value.is_array()  ? "array"
         : value.is_string() ? "string"
         : value.is_bool()   ? "boolean"
         : value.is_null()   ? "null"
                             : "number";
}

class Negation {
 public:
  Negation(const json::object& schema, const SchemaContext& context, int depth)
      : schema_(schema), context_(context), depth_(depth) {}

  std::optional<json::value> alternatives() {
    for (const auto& entry : schema_) keyword(std::string_view(entry.key()), entry.value());
    if (cases_.empty() && asks_) return std::nullopt;
    if (cases_.empty()) return json::value(false);
    if (cases_.size() == 1) return std::move(cases_.front());
    return json::value{{"anyOf", std::move(cases_)}};
  }

 private:
  void keyword(std::string_view word, const json::value& value) {
    if (word == "type" || word == "enum" || word == "const" || word == "not" || word == "anyOf" ||
        word == "oneOf" || word == "if") {
      asks_ = true;
      if (word == "type") types(value);
      if (word == "const") values({value});
      if (word == "enum" && value.is_array()) values(value.as_array());
      if (word == "not") cases_.push_back(value);
      if (word == "anyOf" && value.is_array()) none_of(value.as_array());
      if (word == "oneOf" && value.is_array()) none_or_several(value.as_array());
    } else if (value.is_number() && bounds(word, value)) {
      asks_ = true;
    } else if (word == "pattern") {
      asks_ = true;
      if (value.is_string()) pattern(std::string_view(value.as_string()));
    } else if (word == "required" || word == "properties" || word == "items" || word == "prefixItems" ||
               word == "contains") {
      parts(word, value);
    } else {
      for (const std::string_view other : {"multipleOf",
                                           "format",
                                           "uniqueItems",
                                           "additionalProperties",
                                           "patternProperties",
                                           "propertyNames",
                                           "additionalItems",
                                           "unevaluatedItems",
                                           "unevaluatedProperties",
                                           "dependentRequired",
                                           "dependentSchemas",
                                           "dependencies",
                                           "minContains",
                                           "maxContains",
                                           "$ref",
                                           "$dynamicRef",
                                           "$recursiveRef",
                                           "minimum",
                                           "maximum",
                                           "exclusiveMinimum",
                                           "exclusiveMaximum"})
        asks_ = asks_ || word == other;
    }
  }

  void types(const json::value& named) {
    json::array others;
    for (const std::string_view type : kTypes) {
      const auto is = [&](const json::value& one) {
        return one == json::string(type) || (type == "number" && one == "integer");
      };
      const bool taken = named.is_array() ? std::ranges::any_of(named.as_array(), is) : is(named);
      if (!taken) others.push_back(json::string(type));
    }
    if (!others.empty()) cases_.push_back({{"type", std::move(others)}});
  }

  void values(const json::array& taken) {
    json::array others;
    PatternSet texts;
    json::array booleans;
    std::vector<double> numbers;
    bool known = true;
    for (const json::value& value : taken) {
      if (value.is_number()) numbers.push_back(value.to_number<double>());
      if (value.is_bool()) booleans.push_back(value);
      if (!value.is_string()) continue;
      if (value.as_string().empty()) {
        texts.all.emplace_back("[^\\x00-\\x1f]+");
        continue;
      }
      const std::optional<std::string> text = literal_pattern(std::string_view(value.as_string()));
      if (text && !text->empty()) texts.none.push_back(*text);
      known = known && text.has_value();
    }
    for (const std::string_view type : kTypes)
      if (std::ranges::none_of(taken, [&](const json::value& value) { return plain_type_of(value) == type; }))
        others.push_back(json::string(type));
    if (!others.empty()) cases_.push_back({{"type", std::move(others)}});
    if (known && !(texts.none.empty() && texts.all.empty()))
      cases_.push_back({{"type", "string"}, {"pattern", texts.pattern()}});
    if (booleans.size() == 1) cases_.push_back({{"enum", json::array{!booleans.front().as_bool()}}});
    std::ranges::sort(numbers);
    for (std::size_t i = 0; i <= numbers.size() && !numbers.empty(); ++i) {
      json::object range = {{"type", "number"}};
      if (i > 0) range["exclusiveMinimum"] = numbers[i - 1];
      if (i < numbers.size()) range["exclusiveMaximum"] = numbers[i];
      if (i == 0 || i == numbers.size() || numbers[i - 1] < numbers[i]) cases_.push_back(std::move(range));
    }
  }

  // All of them must be negated: if only some can be, nothing can be said about all.
  void none_of(const json::array& list) {
    json::array all;
    for (const json::value& one : list) {
      std::optional<json::value> other = negated(one, context_, depth_ + 1);
      if (!other) return;
      all.push_back(*std::move(other));
    }
    cases_.push_back({{"allOf", std::move(all)}});
  }

  void none_or_several(const json::array& list) {
    constexpr std::size_t kMaxPairs = 8;
    none_of(list);
    for (std::size_t i = 0; i < list.size() && list.size() <= kMaxPairs; ++i)
      for (std::size_t j = 0; j < i; ++j) cases_.push_back({{"allOf", json::array{list[i], list[j]}}});
  }

  bool bounds(std::string_view word, const json::value& value) {
    constexpr std::string_view kOpposites[][2] = {{"minimum", "exclusiveMaximum"},
                                                  {"maximum", "exclusiveMinimum"},
                                                  {"exclusiveMinimum", "maximum"},
                                                  {"exclusiveMaximum", "minimum"}};
    for (const auto& [one, other] : kOpposites)
      if (word == one) cases_.push_back({{"type", "number"}, {other, value}});
    constexpr std::string_view kCounts[][3] = {{"string", "minLength", "maxLength"},
                                               {"array", "minItems", "maxItems"},
                                               {"object", "minProperties", "maxProperties"}};
    for (const auto& [type, least, most] : kCounts) {
      const double count = value.to_number<double>();
      if (count < 0 || count > 1e9 || count != std::floor(count)) continue;
      if (word == least && count > 0)
        cases_.push_back({{"type", type}, {most, static_cast<std::int64_t>(count) - 1}});
      if (word == most) cases_.push_back({{"type", type}, {least, static_cast<std::int64_t>(count) + 1}});
      if (word == least || word == most) return !(word == least && count == 0);
    }
    return std::ranges::any_of(kOpposites, [&](const auto& pair) { return pair[0] == word; });
  }

  void pattern(std::string_view text) {
    PatternSet taken;
    if (text.starts_with("(?&")) {
      const std::optional<PatternSet> set = set_of_pattern(text);
      if (!set) return;
      taken = *set;
    } else if (const std::optional<std::string> whole = whole_pattern(text)) {
      taken.all.push_back(*whole);
    }
    for (const std::string& one : taken.all)
      cases_.push_back({{"type", "string"}, {"pattern", PatternSet{{}, {one}}.pattern()}});
    for (const std::string& one : taken.none) cases_.push_back({{"type", "string"}, {"pattern", one}});
  }

  void parts(std::string_view word, const json::value& value) {
    const auto before = [](std::size_t count) { return json::array(count, json::value(true)); };
    asks_ = true;
    if (word == "required" && value.is_array()) {
      asks_ = !value.as_array().empty();
      for (const json::value& name : value.as_array())
        if (name.is_string())
          cases_.push_back({{"type", "object"}, {"properties", json::object{{name.as_string(), false}}}});
    } else if (word == "properties" && value.is_object()) {
      asks_ = false;
      for (const auto& entry : value.as_object()) {
        if (entry.value() == true || (entry.value().is_object() && entry.value().as_object().empty()))
          continue;
        asks_ = true;
        cases_.push_back({{"type", "object"},
                          {"properties", json::object{{entry.key(), not_of(entry.value())}}},
                          {"required", json::array{json::string(entry.key())}}});
      }
    } else if (word == "items" && !value.is_array()) {
      asks_ = value != true;
      if (asks_ && !schema_.contains("prefixItems"))
        cases_.push_back({{"type", "array"}, {"contains", not_of(value)}});
    } else if ((word == "prefixItems" || word == "items") && value.is_array()) {
      for (std::size_t i = 0; i < value.as_array().size(); ++i) {
        json::array list = before(i);
        if (value.as_array()[i] == true) continue;
        list.push_back(not_of(value.as_array()[i]));
        cases_.push_back({{"type", "array"}, {"prefixItems", std::move(list)}, {"minItems", i + 1}});
      }
    } else if (word == "contains" && !schema_.contains("minContains") && !schema_.contains("maxContains")) {
      cases_.push_back({{"type", "array"}, {"items", not_of(value)}});
    }
  }

  const json::object& schema_;
  const SchemaContext& context_;
  const int depth_;
  bool asks_ = false;  // true if some keyword is not satisfied by all values
  json::array cases_;
};

}  // namespace

std::optional<json::value> negated(const json::value& schema, const SchemaContext& context, int depth) {
  if (depth > kMaxNegatedDepth) return std::nullopt;
  if (schema.is_bool()) return json::value(!schema.as_bool());
  Result<json::value> flat = flatten_schema(schema, context);
  if (!flat && flat.error().reason() == kNoAnswer) return json::value(true);
  if (!flat) return std::nullopt;
  if (flat->is_bool()) return json::value(!flat->as_bool());
  if (!flat->is_object()) return std::nullopt;
  return Negation(flat->as_object(), context, depth).alternatives();
}

}  // namespace pagoda
