#pragma once
// Escapes a label's value for Prometheus' text format, where it stands between quotes.
#include <string>
#include <string_view>

namespace pagoda {

inline std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out.append("\\n");
    else if (c == '"' || c == '\\')
      out.append({'\\', c});
    else
      out.push_back(c);
  }
  return out;
}

}  // namespace pagoda
