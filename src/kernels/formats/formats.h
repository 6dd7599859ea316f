#pragma once
// The formats of this folder, one WeightFormat each, and their common helpers.
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

// WeightFormat::decode, given a function that decodes one block.
template <DType kType, void (*kBlock)(Bytes block, float* out)>
void blocks(Bytes data, std::int64_t elements, float* out) {
  constexpr DTypeInfo kInfo = dtype_info(kType);
  for (std::int64_t i = 0; i < elements; i += kInfo.block_elements, data += kInfo.block_bytes)
    kBlock(data, out + i);
}

// WeightFormat::decode of a K type, given a function that reads its blocks. kGroup: weights that share a
// scale.
template <DType kType, void (*kRead)(Bytes block, SuperBlock& out), int kGroup, int kZero, bool kMinima>
void super_blocks(Bytes data, std::int64_t elements, float* out) {
  SuperBlock b;
  for (const float* const end = out + elements; out != end; data += dtype_info(kType).block_bytes) {
    kRead(data, b);
    const float d = half_to_float(b.d), dmin = half_to_float(b.dmin);
    for (int g = 0; g < 256 / kGroup; ++g) {
      const float scale = d * static_cast<float>(b.scales[g]);
      const float minimum = dmin * static_cast<float>(b.minima[g]);
      for (int i = g * kGroup; i < (g + 1) * kGroup; ++i, ++out) {
        const float value = scale * static_cast<float>(b.numbers[i] - kZero);
        *out = kMinima ? value - minimum : value;
      }
    }
  }
}

// The same for numbers that index a table of values: w = share * d * scale * value, computed without
// rounding.
template <DType kType, void (*kRead)(Bytes block, SuperBlock& out), int kGroup,
          const std::int8_t (&kValues)[16], float kShare = 1.0f>
void valued_blocks(Bytes data, std::int64_t elements, float* out) {
  SuperBlock b;
  for (const float* const end = out + elements; out != end; data += dtype_info(kType).block_bytes) {
    kRead(data, b);
    const float d = kShare * half_to_float(b.d);
    for (int i = 0; i < kSuperBlockInputs; ++i, ++out)
      *out = d * static_cast<float>(b.scales[i / kGroup]) * static_cast<float>(kValues[b.numbers[i]]);
  }
}

// A type with such numbers. step: the step of 8-bit panels, if 32 numbers share a scale; otherwise null.
template <DType kType, PackedFormat kPanels, void (*kRead)(Bytes block, SuperBlock& out), int kGroup,
          const std::int8_t (&kValues)[16], float kShare = 1.0f>
constexpr WeightFormat valued_format(WeightStep (*step)(Bytes row, std::int64_t group)) {
  return {.decode = valued_blocks<kType, kRead, kGroup, kValues, kShare>,
          .int8_panels = kPanels,
          .super_block = kRead,
          .step = step};
}

// The eight 6-bit (scale, minimum) pairs of Q4_K and Q5_K, packed in 12 bytes.
inline void scale_min(int j, Bytes s, int& scale, int& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}

inline void scales_and_minima(Bytes s, SuperBlock& out) {
  for (int j = 0; j < 8; ++j) {
    int scale, min;
    scale_min(j, s, scale, min);
    out.scales[j] = static_cast<std::int8_t>(scale);
    out.minima[j] = static_cast<std::uint8_t>(min);
  }
}

// The signs of 8 numbers from the lowest 7 bits: the eighth bit makes the number of negative signs even.
inline std::uint8_t even_signs(std::uint32_t bits) {
  const std::uint32_t seven = bits & 127;
  return static_cast<std::uint8_t>(seven | (std::popcount(seven) & 1u) << 7);
}

// Twice a scale of 4 bits plus a half, as in IQ2 and IQ3 types.
inline std::int8_t odd_scale(std::uint32_t bits) { return static_cast<std::int8_t>(2 * (bits & 15) + 1); }
// The raw 4-bit scales, two per byte.
template <int kBytes>
void split_scales(Bytes bytes, std::uint8_t* out) {
  for (int i = 0; i < 2 * kBytes; ++i) out[i] = bytes[i / 2] >> (4 * (i % 2)) & 15;
}

// The low nibbles of 16 bytes, then the high nibbles.
inline void split_nibbles(Bytes bytes, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) out[i] = bytes[i] & 15;
  for (int i = 0; i < 16; ++i) out[16 + i] = bytes[i] >> 4;
}

// 32 weights in 4 bits: w = scale * number(i) + minimum.
template <class Number>
NibbleGroup nibbles_of(float scale, float minimum, const Number& number) {
  NibbleGroup out{.scale = scale, .minimum = minimum};
  for (int i = 0; i < 16; ++i) out.nibbles[i] = static_cast<std::uint8_t>(number(i) | number(i + 16) << 4);
  return out;
}

}  // namespace pagoda::formats
