#include "tensor/small_floats.h"

#include <array>
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

}  // namespace pagoda
