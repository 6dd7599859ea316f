#pragma once
// SchemaPreparer: one run of prepare_schema() (schema_check.h): a walk over a schema that checks and rewrites
// each part by its keywords. Not for anybody else. schema_check.cc has what decides by itself ($ref, enum,
// anyOf, …), schema_kinds.cc what each kind of value may be held to. Invariant: states_ and pairs_ are bounds
// on what the compiler will have to do, counted before it is done. Threads: none.
#include <boost/json.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "constraint/schema_check.h"

namespace pagoda {

namespace json = boost::json;
using Keywords = std::vector<std::string_view>;

inline constexpr std::int64_t kMaxStates = 100'000;  // of a whole grammar, as they are counted here

// Keywords that say something about values of one kind. What is in no list is an annotation, as JSON Schema
// has it.
inline const Keywords kOfObjects = {
    "properties",        "required",         "additionalProperties", "patternProperties",
    "propertyNames",     "minProperties",    "maxProperties",        "unevaluatedProperties",
    "dependentRequired", "dependentSchemas", "dependencies"};
inline const Keywords kOfArrays = {"items",       "prefixItems",     "additionalItems", "minItems",
                                   "maxItems",    "uniqueItems",     "contains",        "minContains",
                                   "maxContains", "unevaluatedItems"};
inline const Keywords kOfStrings = {"minLength", "maxLength", "pattern", "format"};
inline const Keywords kOfNumbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                    "multipleOf"};
class SchemaPreparer {
 public:
  SchemaPreparer(const json::value& root, HoldsPattern holds_pattern)
      : root_(root), holds_pattern_(holds_pattern) {}

  // The root, with all that is referred to as its definitions.
  Status prepare_all(json::value& out);

 private:
  Status prepare(const json::value& schema, const std::string& path, std::size_t depth, json::value& out);

  static std::string at(const std::string& path, std::string_view key) { return concat(path, "/", key); }
  static Status refuse(const std::string& path, std::string_view problem) {
    return invalid_argument(concat("the schema at '", shortened(path), "' ", shortened(problem)));
  }
  // Both may hold names of the client's, who does not need all of a long one back.
  static std::string shortened(std::string_view text) {
    constexpr std::size_t kMaxBytes = 200;
    if (text.size() <= kMaxBytes) return std::string(text);
    text = text.substr(0, kMaxBytes);
    return concat(text.substr(0, valid_utf8_prefix(text)), "...");
  }
  static Status not_held(std::string_view keyword, const std::string& path, std::string_view why = "") {
    return refuse(path, concat("has '", keyword, "'", why, ", which is not supported"));
  }
  static Status too_large(const std::string& path) {
    return refuse(path, "makes a grammar that is too large");
  }

  // Names and comments take part in nothing, and what is recursive in them is nobody's.
  static void drop_annotations(json::object& object) {
    for (const std::string_view name :
         {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
          "$comment", "$schema", "$id", "discriminator"})
      object.erase(name);
  }

  // $ref, const, enum, anyOf, oneOf, allOf: the compiler reads this keyword alone.
  Status decided(std::string_view keyword, json::object& object, const std::string& path, std::size_t depth);

  static bool fits(const json::value& value, const json::value& type);

  // The name of the definition that a reference leads to. It is prepared later, once.
  Result<std::string> follow(const json::value& reference, const std::string& path);

  // A part of this schema, by names alone; null: none.
  const json::value* find(const std::string& target) const;

  // By `type`, or by the keywords that are there.
  Status typed(json::object& object, const std::string& path, std::size_t depth);

  // Whether a prepared schema is one of strings alone.
  static bool of_strings(const json::object& schema);

  // A whole number of things in [0, kMaxCount]; counted as states where something is written that often.
  Status count(const json::object& object, std::string_view keyword, const std::string& path,
               json::object& out, std::int64_t cost);

  Status string_case(const json::object& object, const std::string& path, json::object& out);

  // With everything but printable ASCII written as an escape; empty: that cannot be.
  static std::string printable_pattern(std::string_view pattern);

  Status number_case(const json::object& object, const std::string& path, std::string_view type,
                     json::object& out);

  Status array_case(const json::object& object, const std::string& path, std::size_t depth,
                    json::object& out);

  Status object_case(const json::object& object, const std::string& path, std::size_t depth,
                     json::object& out);

  const json::value& root_;
  const HoldsPattern holds_pattern_;
  std::int64_t states_ = 0, pairs_ = 0;
  struct Definition {
    std::string path;
    const json::value* schema;
  };
  std::vector<Definition> pending_;
  std::map<std::string, std::string> names_;  // of definitions, by their path
};

}  // namespace pagoda
