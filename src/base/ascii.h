#pragma once
// Kinds of ASCII's characters, and its letters in small, whatever the locale: names in HTTP, words of
// configurations, JSON. Not for text, whose other letters stay as they are.
#include <algorithm>
#include <string>
#include <string_view>

namespace pagoda {

// White space of JSON, and of Python within a line or between two.
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

}  // namespace pagoda
