#pragma once
// SchemaPreparer: one run of prepare_schema() (schema_check.h): walks over a schema, and checks and rewrites
// each part by its keywords. Private to schema_*.cc: schema_check.cc has the keywords that decide on their
// own ($ref, enum, anyOf, …), schema_kinds.cc the constraints on each kind of value. Invariant: states_ and
// pairs_ bound the compiler's work, and are counted in advance. Threads: none.
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

inline constexpr std::int64_t kMaxStates = 100'000;  // per grammar, as counted here

// Keywords that apply to values of one kind. Keywords in no list are annotations, as in JSON Schema.
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

  // Prepares the root, with everything it refers to as definitions.
  Status prepare_all(json::value& out);

  // The place and, if applicable, the keyword of the error that prepare_all() returned.
  const std::string& refused_path() const { return path_; }
  const std::string& refused_keyword() const { return keyword_; }

 private:
  Status prepare(const json::value& schema, const std::string& path, std::size_t depth, json::value& out);

  static std::string at(const std::string& path, std::string_view key) { return concat(path, "/", key); }
  Status refuse(const std::string& path, std::string_view problem) const {
    if (path_.empty()) path_ = path;
    return invalid_argument(concat("the schema at '", shortened(path), "' ", shortened(problem)));
  }
  // Both texts may contain long names from the client, who does not need them back in full.
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

  // Annotations constrain nothing, and recursion inside them does not matter.
  static void drop_annotations(json::object& object) {
    for (const std::string_view name :
         {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
          "$comment", "$schema", "$id", "discriminator"})
      object.erase(name);
  }

  // Rewrites `object` until only keywords remain that the cases below handle: schemas that apply together are
  // merged, conditions become alternatives, and a schema without a type gets it from `not`.
  Status rewrite(json::object& object, const std::string& path, std::size_t depth);
  Status rewrite_not(json::object& object, const std::string& path);
  static void rewrite_dependents(json::object& object);
  Status rewrite_contains(json::object& object, const std::string& path);
  static void rewrite_names(json::object& object);

  // Keeps the values that the rest of the schema allows.
  Status enumerated(json::object& object, const std::string& path);
  // anyOf, oneOf: merges each case with the keywords beside them.
  Status alternatives(std::string_view keyword, json::object& object, const std::string& path,
                      std::size_t depth);
  // `names` receives the names of definitions for cases that are references and require an additional
  // property; otherwise empty.
  Status exclude_each_other(json::array& cases, const std::string& path, std::vector<std::string>& names);

  // $ref, const, enum, anyOf, oneOf: the compiler reads only this keyword.
  Status decided(std::string_view keyword, json::object& object, const std::string& path, std::size_t depth);

  // The name of the definition that a reference points to. The definition is prepared later, once.
  Result<std::string> follow(const json::value& reference, const std::string& path);

  // A part of this schema by its place; null if there is none.
  const json::value* find(const std::string& target) const;
  SchemaContext context() const {
    return {[this](const std::string& target) { return find(target); }, patterns_.matches};
  }

  // Handles a schema by its `type`, or by the keywords present.
  Status typed(json::object& object, const std::string& path, std::size_t depth);

  // The kind of values that the keywords apply to, if no type is given.
  static std::string_view kind_of(const json::object& object);
  Status case_of(const std::string& type, const json::object& object, const std::string& path,
                 std::size_t depth, json::object& out);

  // True if a prepared schema allows only strings.
  static bool of_strings(const json::object& schema);

  // Reads a count in [0, kMaxCount]; adds it to the states if something is repeated that often.
  Status count(const json::object& object, std::string_view keyword, const std::string& path,
               json::object& out, std::int64_t cost);

  Status string_case(const json::object& object, const std::string& path, json::object& out);

  // True if the compiler can enforce the pattern and some string matches it.
  bool held(const std::string& pattern) const {
    return patterns_.holds == nullptr || patterns_.holds(pattern);
  }
  // Strings that match several patterns, or do not match others; possibly with a format, or with lengths.
  Status pattern_case(const json::object& object, const json::object& lengths, const std::string& path,
                      json::object& out);

  Status number_case(const json::object& object, const std::string& path, std::string_view type,
                     json::object& out);

  // All values that satisfy the schema, if they are few. nullopt if they are unknown.
  std::optional<json::array> listed(const json::value& schema, const std::string& path);
  // Lists of distinct values from a small set.
  Status unique_items(const json::object& object, const std::string& path, json::object& out);

  Status array_case(const json::object& object, const std::string& path, std::size_t depth,
                    json::object& out);

  Status object_case(const json::object& object, const std::string& path, std::size_t depth,
                     json::object& out);
  // Rules for undeclared names.
  struct OpenNames {
    std::vector<std::pair<PatternSet, json::value>> patterns;  // patternProperties
    const json::value* additional = nullptr;                   // null: no other names are allowed
    std::optional<PatternSet> names;                           // propertyNames
    std::vector<std::string> taken;                            // declared names
  };
  Status open_names(const json::object& object, const std::string& path, std::size_t depth, OpenNames& out);
  // The schema of a name: from the patterns that it matches, otherwise that of all other names. Sets `out` to
  // nullopt if the name is not allowed.
  Status by_patterns(std::string_view name, const OpenNames& open, const std::string& path,
                     std::optional<json::value>& out);
  // Writes a name pattern for each combination of patterns that a name may match.
  Status name_patterns(const OpenNames& open, const std::string& path, std::size_t depth, json::object& out);

  const json::value& root_;
  const PatternChecks patterns_;
  std::int64_t states_ = 0, pairs_ = 0;
  mutable std::string path_, keyword_;  // set by the first refusal
  struct Definition {
    std::string path;
    const json::value* schema;
  };
  std::vector<Definition> pending_;
  std::map<std::string, std::string> names_;  // names of definitions by their path
  std::deque<json::value> made_;              // generated definitions, which are not in the schema
};

}  // namespace pagoda
