#pragma once
// Classification and lowercasing of ASCII characters, independent of the locale: for HTTP names,
// configuration keywords and JSON. Not for natural-language text: non-ASCII letters stay as they are.
#include <algorithm>
#include <string>
#include <string_view>

namespace pagoda {

// White space in JSON; also the white space that Python recognises within and between lines.
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

}  // namespace pagoda
