#include "tensor/small_floats.h"

#include <array>
#include <cmath>
#include <limits>

namespace pagoda {
namespace {

constexpr std::array<float, 256> kValues = [] {
  std::array<float, 256> values{};
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    float value = static_cast<float>(exponent == 0 ? fraction : 8 + fraction) * 0x1p-9f;
    for (int i = 1; i < exponent; ++i) value *= 2;
    if (exponent == 15 && fraction == 7) value = std::numeric_limits<float>::quiet_NaN();
    values[static_cast<std::size_t>(bits)] = bits < 128 ? value : -value;
  }
  return values;
}();

}  // namespace

float e4m3_value(std::uint8_t bits) { return kValues[bits]; }

std::uint8_t nearest_e4m3(float value) {
  constexpr std::uint8_t kLargest = 0x7e;
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float size = std::fabs(value);
  std::uint8_t bits = 0;  // the largest number not above `size`
  while (bits < kLargest && !(size < kValues[bits + 1U])) ++bits;
  if (bits == kLargest) return sign | kLargest;
  const float below = size - kValues[bits], above = kValues[bits + 1U] - size;  // exact: of similar magnitude
  const bool up = above < below || (above == below && bits % 2 != 0);
  return static_cast<std::uint8_t>(sign | (bits + (up ? 1 : 0)));
}

}  // namespace pagoda
