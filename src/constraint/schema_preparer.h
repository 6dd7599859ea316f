#pragma once
// SchemaPreparer: one run of prepare_schema() (schema_check.h): a walk over a schema that checks and rewrites
// each part by its keywords. Not for anybody else. schema_check.cc has what decides by itself ($ref, enum,
// anyOf, …), schema_kinds.cc what each kind of value may be held to. Invariant: states_ and pairs_ are bounds
// on what the compiler will have to do, counted before it is done. Threads: none.
#include <boost/json.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "constraint/pattern_sets.h"
#include "constraint/schema_check.h"
#include "constraint/schema_merge.h"

namespace pagoda {

namespace json = boost::json;
using Keywords = std::vector<std::string_view>;

inline constexpr std::int64_t kMaxStates = 100'000;  // a whole grammar, as counted here

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
  SchemaPreparer(const json::value& root, const PatternChecks& patterns) : root_(root), patterns_(patterns) {}

  // The root, with all that is referred to as its definitions.
  Status prepare_all(json::value& out);

  // The place and, if it is about one, the keyword of the error that prepare_all() returned.
  const std::string& refused_path() const { return path_; }
  const std::string& refused_keyword() const { return keyword_; }

 private:
  Status prepare(const json::value& schema, const std::string& path, std::size_t depth, json::value& out);

  static std::string at(const std::string& path, std::string_view key) { return concat(path, "/", key); }
  Status refuse(const std::string& path, std::string_view problem) const {
    if (path_.empty()) path_ = path;
    return invalid_argument(concat("the schema at '", shortened(path), "' ", shortened(problem)));
  }
  // Both may hold names of the client's, who does not need all of a long one back.
  static std::string shortened(std::string_view text) {
    constexpr std::size_t kMaxBytes = 200;
    if (text.size() <= kMaxBytes) return std::string(text);
    text = text.substr(0, kMaxBytes);
    return concat(text.substr(0, valid_utf8_prefix(text)), "...");
  }
  Status not_held(std::string_view keyword, const std::string& path, std::string_view why = "") const {
    if (path_.empty()) keyword_ = keyword;
    return refuse(path, concat("has '", keyword, "'", why, ", which is not supported"));
  }
  Status too_large(const std::string& path) const { return refuse(path, "makes the grammar too large"); }

  // Names and comments take part in nothing, and what is recursive in them is nobody's.
  static void drop_annotations(json::object& object) {
    for (const std::string_view name :
         {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
          "$comment", "$schema", "$id", "discriminator"})
      object.erase(name);
  }

  // Rewrites `object` until no keyword is left that the cases below do not take: schemas said together become
  // one, conditions become alternatives, what names no type gets it from `not`.
  Status rewrite(json::object& object, const std::string& path, std::size_t depth);
  Status rewrite_not(json::object& object, const std::string& path);
  static void rewrite_dependents(json::object& object);
  Status rewrite_contains(json::object& object, const std::string& path);
  static void rewrite_names(json::object& object);

  // Values that the rest of the schema allows.
  Status enumerated(json::object& object, const std::string& path);
  // anyOf, oneOf: each case with what stands beside them.
  Status alternatives(std::string_view keyword, json::object& object, const std::string& path,
                      std::size_t depth);
  // `names` gets those of definitions for cases that are references and need a property more; else empty.
  Status exclude_each_other(json::array& cases, const std::string& path, std::vector<std::string>& names);

  // $ref, const, enum, anyOf, oneOf: the compiler reads this keyword alone.
  Status decided(std::string_view keyword, json::object& object, const std::string& path, std::size_t depth);

  // The name of the definition that a reference leads to. It is prepared later, once.
  Result<std::string> follow(const json::value& reference, const std::string& path);

  // A part of this schema, by its place; null: none.
  const json::value* find(const std::string& target) const;
  SchemaContext context() const {
    return {[this](const std::string& target) { return find(target); }, patterns_.matches};
  }

  // By `type`, or by the keywords that are there.
  Status typed(json::object& object, const std::string& path, std::size_t depth);

  // The kind of values that the keywords are about, where nothing names a type.
  static std::string_view kind_of(const json::object& object);
  Status case_of(const std::string& type, const json::object& object, const std::string& path,
                 std::size_t depth, json::object& out);

  // Whether a prepared schema is one of strings alone.
  static bool of_strings(const json::object& schema);

  // A whole number of things in [0, kMaxCount]; counted as states where something is written that often.
  Status count(const json::object& object, std::string_view keyword, const std::string& path,
               json::object& out, std::int64_t cost);

  Status string_case(const json::object& object, const std::string& path, json::object& out);

  // Whether the compiler holds strings to it, and there are such strings.
  bool held(const std::string& pattern) const {
    return patterns_.holds == nullptr || patterns_.holds(pattern);
  }
  // Strings that match several patterns, or not others; or a format, too; or that have lengths, too.
  Status pattern_case(const json::object& object, const json::object& lengths, const std::string& path,
                      json::object& out);

  Status number_case(const json::object& object, const std::string& path, std::string_view type,
                     json::object& out);

  // All values that satisfy it, where they are few. Nothing: they are not known.
  std::optional<json::array> listed(const json::value& schema, const std::string& path);
  // Lists of different values of few.
  Status unique_items(const json::object& object, const std::string& path, json::object& out);

  Status array_case(const json::object& object, const std::string& path, std::size_t depth,
                    json::object& out);

  Status object_case(const json::object& object, const std::string& path, std::size_t depth,
                     json::object& out);
  // Rules for names that are not declared.
  struct OpenNames {
    std::vector<std::pair<PatternSet, json::value>> patterns;  // patternProperties
    const json::value* additional = nullptr;                   // null: others do not come
    std::optional<PatternSet> names;                           // propertyNames
    std::vector<std::string> taken;                            // names that are declared
  };
  Status open_names(const json::object& object, const std::string& path, std::size_t depth, OpenNames& out);
  // The schema of a name: from the patterns that it matches, else that of all others. Absent: it does not
  // come.
  Status by_patterns(std::string_view name, const OpenNames& open, const std::string& path,
                     std::optional<json::value>& out);
  // A pattern of names for each combination of patterns that a name may match.
  Status name_patterns(const OpenNames& open, const std::string& path, std::size_t depth, json::object& out);

  const json::value& root_;
  const PatternChecks patterns_;
  std::int64_t states_ = 0, pairs_ = 0;
  mutable std::string path_, keyword_;  // first refusal
  struct Definition {
    std::string path;
    const json::value* schema;
  };
  std::vector<Definition> pending_;
  std::map<std::string, std::string> names_;  // definitions by their path
  std::deque<json::value> made_;              // definitions that are not in the schema
};

}  // namespace pagoda
