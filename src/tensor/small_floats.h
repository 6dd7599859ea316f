#pragma once
// The floats of 8 and 4 bits in which quantised folders keep weights and scales.
#include <cstdint>

namespace pagoda {

// One bit for the sign, 4 for the exponent, 3 for the fraction. NaN of 0x7f and 0xff; no infinities.
float e4m3_value(std::uint8_t bits);
// The nearest number, of two the one whose last bit is 0; at most 448 in magnitude, and that of what is not a
// number. The sign is that of `value`, of zeros too.
std::uint8_t nearest_e4m3(float value);

// One bit for the sign, 2 for the exponent, one for the fraction: MXFP4 and NVFP4.
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
