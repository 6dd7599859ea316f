#pragma once
// Schemas said together: `allOf`, and what stands beside `$ref`, become one schema that has what each of them
// asks for. What cannot be said as one schema is refused with the keyword's name. Also which values and which
// schemas exclude each other, for `oneOf`. Nothing here is prepared for the compiler (schema_check.h).
// Source: JSON Schema 2020-12 and draft 7. Threads: any.
#include <boost/json/value.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// The reason of an error: the schema is one that no answer satisfies.
inline constexpr std::string_view kNoAnswer = "no_answer";

// The schema that a reference leads to; null: none.
using FindSchema = std::function<const boost::json::value*(const std::string& target)>;

// `schema` without `allOf`, without `$ref` and without unevaluated parts that it can say as `additionalProperties`
// or `items`; deeper schemas are left as they are. Errors: the problem alone, without the place.
Result<boost::json::value> flatten_schema(const boost::json::value& schema, const FindSchema& find);

// Whether a value satisfies a schema. Nothing: it has keywords that are not judged.
std::optional<bool> satisfies(const boost::json::value& value, const boost::json::value& schema,
                              const FindSchema& find, int depth = 0);

// Whether no answer that is held to `first` satisfies `second`, both flat; answers have no properties that are
// not declared. `tag` gets the name of a property that has to be there for that.
bool excludes(const boost::json::object& first, const boost::json::object& second, const FindSchema& find,
              std::string& tag, int depth = 0);

}  // namespace pagoda
