#pragma once
// PatternSet: strings that match each of some patterns and none of others, as one pattern that the compiler
// reads (cmake/xgrammar/string_sets.h). Not a matcher. Patterns are held to whole texts of characters that
// stand for themselves in JSON, and are printable ASCII. Source: JSON Schema 2020-12 §6.3.3, ECMA-262.
// Threads: any.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

struct PatternSet {
  std::vector<std::string> all, none;

  std::string pattern() const;
};

// Everything but printable ASCII as an escape. Empty: there is none for one of the characters.
std::string printable_pattern(std::string_view pattern);

// The pattern that whole texts match where `pattern`, as JSON Schema has it, is found somewhere in them.
// Nothing: it has an anchor within, or says what the compiler reads in another way.
std::optional<std::string> whole_pattern(std::string_view pattern);

// The strings of a schema's `pattern`, which may be a set already; where whole_pattern() has none, those that
// match as a whole. Nothing: there is no such pattern for the compiler.
std::optional<PatternSet> set_of_pattern(std::string_view pattern);

// The pattern of this text alone. Empty: no set has the text, since it has to be escaped in JSON. Nothing:
// there is none for it.
std::optional<std::string> literal_pattern(std::string_view text);

}  // namespace pagoda
