#pragma once
// concat(): builds a message from strings and numbers. Not a formatting library.
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace pagoda {

inline void append_piece(std::string& out, std::string_view piece) { out.append(piece); }
inline void append_piece(std::string& out, char piece) { out.push_back(piece); }
template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, char>)
void append_piece(std::string& out, T number) {
  if constexpr (std::is_floating_point_v<T>) {
    char buffer[40];
    const int length = std::snprintf(buffer, sizeof buffer, "%.6g", static_cast<double>(number));
    out.append(buffer, static_cast<std::size_t>(length));
  } else {
    out.append(std::to_string(number));
  }
}

template <class... Pieces>
std::string concat(const Pieces&... pieces) {
  std::string out;
  (append_piece(out, pieces), ...);
  return out;
}

// `value` with exactly `digits` digits after the decimal point.
inline std::string fixed(double value, int digits) {
  // Measured first: the largest double has 309 digits before the decimal point.
  const int length = std::snprintf(nullptr, 0, "%.*f", digits, value);
  std::string out(static_cast<std::size_t>(length), '\0');
  std::snprintf(out.data(), out.size() + 1, "%.*f", digits, value);
  return out;
}

}  // namespace pagoda
