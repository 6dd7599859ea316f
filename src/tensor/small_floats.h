#pragma once
// The 8-bit and 4-bit floats in which quantised folders store weights and scales.
#include <cstdint>

namespace pagoda {

// 1 sign bit, 4 exponent bits, 3 fraction bits. 0x7f and 0xff are NaN; there are no infinities.
float e4m3_value(std::uint8_t bits);
// Returns the nearest number, ties to even; the magnitude is at most 448, also for NaN. The sign is that of
// `value`, even for zeros.
std::uint8_t nearest_e4m3(float value);

// 1 sign bit, 2 exponent bits, 1 fraction bit: MXFP4 and NVFP4.
inline constexpr float kE2m1Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// bitsandbytes' NF4: quantiles of the normal distribution.
inline constexpr float kNf4Values[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

}  // namespace pagoda
