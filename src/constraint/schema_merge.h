#pragma once
// Merges schemas that apply together (`allOf`, and keywords beside `$ref`) into one schema with the
// requirements of each; and negates schemas, for `not`. Combinations that cannot be expressed as one schema
// are refused with the keyword's name. Also determines which values and schemas exclude each other, for
// `oneOf`. Does not prepare schemas for the compiler (schema_check.h). Source: JSON Schema 2020-12 and draft
// 7. Threads: any.
#include <boost/json/value.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// The error reason for a schema that no answer satisfies.
inline constexpr std::string_view kNoAnswer = "no_answer";

// The context of a schema being evaluated.
struct SchemaContext {
  // Returns the schema that a reference points to; null if there is none.
  std::function<const boost::json::value*(const std::string& target)> find;
  // Whether a text matches a pattern of pattern_sets.h. nullopt (or a null function) if unknown.
  std::optional<bool> (*matches)(const std::string& pattern, const std::string& text) = nullptr;
};

// `schema` without `allOf` and `$ref`, and without unevaluated parts that can be expressed as
// `additionalProperties` or `items`; nested schemas are left as they are. Errors describe the problem only,
// not its place.
Result<boost::json::value> flatten_schema(const boost::json::value& schema, const SchemaContext& context);

// Whether a value satisfies a schema. nullopt if the schema has keywords that are not evaluated here.
std::optional<bool> satisfies(const boost::json::value& value, const boost::json::value& schema,
                              const SchemaContext& context, int depth = 0);

// True if no answer constrained to `first` satisfies `second`; both are flat, and answers have only declared
// properties. `tag` receives the name of a property that must be present for this to hold.
bool excludes(const boost::json::object& first, const boost::json::object& second,
              const SchemaContext& context, std::string& tag, int depth = 0);

// Rewrites `if`, `then` and `else` as alternatives; without `if`, `then` and `else` have no effect.
void rewrite_conditions(boost::json::object& schema);

// A schema for the values, or some of them, that do not satisfy `schema`; `false` if every value satisfies
// it. nullopt if none can be expressed.
std::optional<boost::json::value> negated(const boost::json::value& schema, const SchemaContext& context,
                                          int depth = 0);

}  // namespace pagoda
