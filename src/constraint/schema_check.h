#pragma once
// Checks which part of JSON Schema can be held exactly. A schema is checked keyword by keyword and rewritten
// into the part that the compiler holds; a keyword that it would leave out is refused by name. The rewritten
// schema may allow fewer answers (objects without undeclared properties), never more. Not a validator of
// answers, and no compiler.
// Bounds: depth, properties, repetitions, so that compilation ends soon.
// Source: JSON Schema 2020-12 and draft 7; docs/structured-output.md has the table. Threads: any.
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

// Between the parts of a JSON text. Models that may write as much white space as they like do, and never
// stop.
inline constexpr int kMaxWhiteSpace = 1;
inline constexpr std::size_t kMaxGrammarBytes = std::size_t{64} << 10;  // text of a schema or grammar
// A structural tag, which holds the schemas of all tools.
inline constexpr std::size_t kMaxTagBytes = std::size_t{1} << 20;

// The compiler's view of patterns, which it is never asked with other bytes than printable ASCII.
struct PatternChecks {
  // Whether it holds strings to a pattern, and there is such a string. Null: to any.
  bool (*holds)(const std::string& pattern) = nullptr;
  // Whether a text as a whole matches. Nothing, or null: it does not know.
  std::optional<bool> (*matches)(const std::string& pattern, const std::string& text) = nullptr;
};

// The schema to compile. invalid_argument names the keyword and where it stands.
Result<boost::json::value> prepare_schema(const boost::json::value& schema,
                                          const PatternChecks& patterns = {});

// The same of what can be held of a schema: keywords that cannot are left out, or the part of the schema that
// they stand in, and named in `dropped`.
Result<boost::json::value> prepare_most(const boost::json::value& schema, const PatternChecks& patterns,
                                        std::vector<std::string>& dropped);

}  // namespace pagoda
