#pragma once
// PatternSet: strings that match all of some patterns and none of others, written as one pattern for the
// compiler (cmake/xgrammar/string_sets.h). Not a matcher. Patterns match whole strings of characters that
// need no escape in JSON, and are printable ASCII. Source: JSON Schema 2020-12 §6.3.3, ECMA-262.
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

// Escapes everything except printable ASCII. Empty if a character has no escape.
std::string printable_pattern(std::string_view pattern);

// A pattern that matches a whole string if `pattern`, in JSON Schema's sense, matches anywhere in it. nullopt
// if `pattern` has an inner anchor, or a construct that the compiler interprets differently.
std::optional<std::string> whole_pattern(std::string_view pattern);

// The strings of a schema's `pattern`, which may already be a set; if whole_pattern() fails, the strings that
// match as a whole. nullopt if the compiler has no such pattern.
std::optional<PatternSet> set_of_pattern(std::string_view pattern);

// A pattern for exactly this text. Empty if no set can contain the text, since it must be escaped in JSON.
// nullopt if there is no pattern for it.
std::optional<std::string> literal_pattern(std::string_view text);

}  // namespace pagoda
