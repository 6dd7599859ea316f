#pragma once
// Letters of ASCII in small, whatever the locale: names in HTTP, words of configurations. Not for text, whose
// other letters stay as they are.
#include <algorithm>
#include <string>
#include <string_view>

namespace pagoda {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

}  // namespace pagoda
