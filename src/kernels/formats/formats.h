#pragma once
// The formats of this folder, one WeightFormat each, and the little they share.
#include <bit>
#include <cstring>

#include "kernels/weight_format.h"

namespace pagoda::formats {

#define PAGODA_DTYPE(type, name, elements, bytes, gguf) extern const WeightFormat type;
#include "tensor/dtypes.def"
#undef PAGODA_DTYPE

using Bytes = const std::uint8_t*;

template <class T>
T load(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}
inline float load_half(Bytes address) { return half_to_float(load<std::uint16_t>(address)); }

// WeightFormat::decode out of what decodes one block.
template <DType kType, void (*kBlock)(Bytes block, float* out)>
void blocks(Bytes data, std::int64_t elements, float* out) {
  constexpr DTypeInfo kInfo = dtype_info(kType);
  for (std::int64_t i = 0; i < elements; i += kInfo.block_elements, data += kInfo.block_bytes)
    kBlock(data, out + i);
}

// The eight 6-bit (scale, minimum) pairs of Q4_K and Q5_K in 12 bytes.
inline void scale_min(int j, Bytes s, int& scale, int& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}

// The values of the 4-bit numbers of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

// Twice the values of the 4-bit floats of MXFP4 and NVFP4: one bit for the sign, two for the exponent, one
// for the fraction.
inline constexpr std::int8_t kFp4Twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The signs of 8 numbers out of the lowest 7 bits: the eighth makes the number of negative ones even.
inline int even_signs(std::uint32_t bits) {
  const std::uint32_t seven = bits & 127;
  return static_cast<int>(seven | (std::popcount(seven) & 1u) << 7);
}

// 32 weights in 4 bits: w = scale * number(i) + minimum.
template <class Number>
NibbleGroup nibbles_of(float scale, float minimum, const Number& number) {
  NibbleGroup out{.scale = scale, .minimum = minimum};
  for (int i = 0; i < 16; ++i) out.nibbles[i] = static_cast<std::uint8_t>(number(i) | number(i + 16) << 4);
  return out;
}

}  // namespace pagoda::formats
