#pragma once
// Schemas said together: `allOf`, and what stands beside `$ref`, become one schema that has what each of them
// asks for; and schemas negated, for `not`. What cannot be said as one schema is refused with the keyword's
// name. Also which values and which schemas exclude each other, for `oneOf`. Nothing here is prepared for the
// compiler (schema_check.h). Source: JSON Schema 2020-12 and draft 7. Threads: any.
#include <boost/json/value.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// The reason of an error: the schema is one that no answer satisfies.
inline constexpr std::string_view kNoAnswer = "no_answer";

// The surroundings of a schema that is judged.
struct SchemaContext {
  // The schema that a reference leads to; null: none.
  std::function<const boost::json::value*(const std::string& target)> find;
  // Whether a text matches a pattern of pattern_sets.h. Nothing, or null: nobody knows.
  std::optional<bool> (*matches)(const std::string& pattern, const std::string& text) = nullptr;
};

// `schema` without `allOf`, without `$ref` and without unevaluated parts that it can say as
// `additionalProperties` or `items`; deeper schemas are left as they are. Errors: the problem alone, without
// the place.
Result<boost::json::value> flatten_schema(const boost::json::value& schema, const SchemaContext& context);

// Whether a value satisfies a schema. Nothing: it has keywords that are not judged.
std::optional<bool> satisfies(const boost::json::value& value, const boost::json::value& schema,
                              const SchemaContext& context, int depth = 0);

// Whether no answer that is held to `first` satisfies `second`, both flat; answers have no properties that
// are not declared. `tag` gets the name of a property that has to be there for that.
bool excludes(const boost::json::object& first, const boost::json::object& second,
              const SchemaContext& context, std::string& tag, int depth = 0);

// `if`, `then` and `else` as alternatives; without `if` the others say nothing.
void rewrite_conditions(boost::json::object& schema);

// A schema of values that do not satisfy `schema`, where it can be said of all of them or of some: `false`
// where every value satisfies it. Nothing: none can be said.
std::optional<boost::json::value> negated(const boost::json::value& schema, const SchemaContext& context,
                                          int depth = 0);

}  // namespace pagoda
