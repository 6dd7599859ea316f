#include "base/base64.h"

#include <array>
#include <cstdint>

namespace pagoda {

std::optional<std::string> decode_base64(std::string_view text) {
  static const std::array<signed char, 256> kValues = [] {
    std::array<signed char, 256> values;
    values.fill(-1);
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < kDigits.size(); ++i)
      values[static_cast<unsigned char>(kDigits[i])] = static_cast<signed char>(i);
    return values;
  }();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const signed char value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      out.push_back(static_cast<char>(bits >> num_bits & 0xFF));
    }
  }
  return out;
}

}  // namespace pagoda
