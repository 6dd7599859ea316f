#pragma once
// Conversion between float16 or bfloat16 and float32.
#include <cstdint>

namespace pagoda {

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);  // round to nearest even
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);  // round to nearest even; NaN stays NaN

}  // namespace pagoda
