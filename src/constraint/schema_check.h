#pragma once
// Checks which parts of a JSON Schema can be enforced exactly. A schema is checked keyword by keyword and
// rewritten to the subset that the compiler enforces; a keyword that would be lost is refused by name. The
// rewritten schema may allow fewer answers (objects without undeclared properties), never more. Not a
// validator of answers, and not a compiler.
// Bounds: depth, properties, repetitions, so that compilation ends soon.
// Source: JSON Schema 2020-12 and draft 7; docs/structured-output.md has the table. Threads: any.
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

// White space between the parts of JSON text. Models that may write any amount of white space do so, and
// never stop.
inline constexpr int kMaxWhiteSpace = 1;
inline constexpr std::size_t kMaxGrammarBytes = std::size_t{64} << 10;  // for the text of a schema or grammar
// For a structural tag, which contains the schemas of all tools.
inline constexpr std::size_t kMaxTagBytes = std::size_t{1} << 20;

// The compiler's view of patterns; it is only asked about printable ASCII.
struct PatternChecks {
  // True if the compiler can enforce the pattern and some string matches it. Null: any pattern.
  bool (*holds)(const std::string& pattern) = nullptr;
  // Whether the whole text matches. nullopt (or a null function) if unknown.
  std::optional<bool> (*matches)(const std::string& pattern, const std::string& text) = nullptr;
};

// The schema to compile. invalid_argument names the keyword and its place.
Result<boost::json::value> prepare_schema(const boost::json::value& schema,
                                          const PatternChecks& patterns = {});

// The same for the enforceable part of a schema: other keywords are omitted, or the part of the schema that
// contains them, and named in `dropped`.
Result<boost::json::value> prepare_most(const boost::json::value& schema, const PatternChecks& patterns,
                                        std::vector<std::string>& dropped);

}  // namespace pagoda
