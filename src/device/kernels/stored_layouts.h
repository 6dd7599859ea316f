#pragma once
// Device-memory layouts of rows of weights that stay quantised, as the loader writes them
// (kernels/device/stored_rows.h) and kernels read them (stored_weights.cuh). Identical for nvcc and the
// host's compiler.
#include <cstdint>

// Marks a function that nvcc compiles for both host and device.
#ifdef __CUDACC__
#define PAGODA_HOST_DEVICE __host__ __device__
#else
#define PAGODA_HOST_DEVICE
#endif

namespace pagoda::device {

// 32 neighbouring weights of a row, with the numbers of the file; rows are whole groups. w = scale * n +
// minimum, n in 0..15: codes[i] has n of weight i in its low bits and of weight 16 + i in its high bits.
struct Quantized4 {
  float scale, minimum;
  std::uint8_t codes[16];
};
// w = scale * code
struct Quantized8 {
  float scale;
  std::int8_t codes[32];
};
inline constexpr std::int32_t kQuantizedGroup = 32;

// kQuantizedUnit neighbouring weights in a row of Q4_K, Q5_K or Q6_K: half of a block of the file, with its
// scales in whole bytes and its codes in the order in which a warp's lanes load them for products
// (weight_fragments.cuh). The code of weight i is at code_byte(i): in the low bits of that byte, or in its
// high bits if i % 32 >= 16.
inline constexpr std::int32_t kQuantizedUnit = 128;
PAGODA_HOST_DEVICE constexpr std::int32_t code_byte(std::int32_t i) {
  return 16 * (i / 32) + 4 * (i % 8 / 2) + 2 * (i % 16 / 8) + i % 2;
}
// w = scale * scales[i / 32] * n - minimum * minima[i / 32], n in 0..15
struct Quantized4K {
  float scale, minimum;
  std::uint8_t scales[4], minima[4];
  std::uint8_t codes[64];
};
// w = scale * scales[i / 16] * (n - 32), n in 0..63. The two highest bits of n are in `high`: a byte there
// has those of the low and high code of the byte in codes[] for one group of 32, then those for the next 32.
struct Quantized6K {
  std::uint8_t codes[64];
  std::uint8_t high[32];
  std::int8_t scales[8];
  float scale;
  std::uint32_t unused;
};
// As Quantized4K, with n in 0..31. The highest bit of n is in `high`: a byte there has those of the low and
// high code of the byte in codes[] for the first 32, then those for the following ones.
struct Quantized5K {
  float scale, minimum;
  std::uint8_t scales[4], minima[4];
  std::uint8_t codes[64];
  std::uint8_t high[16];
};
static_assert(sizeof(Quantized4K) == 80 && sizeof(Quantized5K) == 96 &&
              sizeof(Quantized6K) == 112);  // whole pieces of 16 bytes
PAGODA_HOST_DEVICE constexpr std::int32_t fifth_bit(std::int32_t i) { return i / 32 * 2 + i / 16 % 2; }
PAGODA_HOST_DEVICE constexpr std::int32_t high_byte(std::int32_t i) {
  return 16 * (i / 64) + code_byte(i % 32);
}
PAGODA_HOST_DEVICE constexpr std::int32_t high_shift(std::int32_t i) {
  return 4 * (i / 32 % 2) + 2 * (i / 16 % 2);
}

// A row of 8-bit floats (e4m3): its k codes, k a multiple of 32, followed by their scales in f32, padded to a
// multiple of 16 bytes: one scale (Float8), or one per kFloat8Scale of k (Float8Blocks). w = scale * code. In
// products by tiles the codes of each kFloat8Scale of k are summed separately, and a scale multiplies a
// finished sum. The code of weight i of 32 is at float8_byte(i): a warp's lanes load eight of them at once
// (weight_fragments.cuh).
struct Float8 {
  std::uint8_t bits;
};
struct Float8Blocks {
  std::uint8_t bits;
};
inline constexpr std::int32_t kFloat8Scale = 128;
PAGODA_HOST_DEVICE constexpr std::int32_t float8_byte(std::int32_t i) {
  return 8 * (i % 8 / 2) + 4 * (i / 16) + 2 * (i % 2) + 1 - i / 8 % 2;
}
PAGODA_HOST_DEVICE constexpr std::int32_t float8_row_bytes(std::int32_t k, bool blocks) {
  const std::int32_t scales = blocks ? (k + kFloat8Scale - 1) / kFloat8Scale : 1;
  return k + (scales + 3) / 4 * 16;
}
// A row of 4-bit floats (e2m1) with powers of two (MXFP4): its k codes, k a multiple of 32, two per byte,
// followed by one byte per kQuantizedGroup of k, padded to a multiple of 16 bytes. w = 2^(byte - 127) * code.
// The code of weight i of 32 is in float4_byte(i), from bit float4_shift(i) on: a warp's lanes load eight of
// them at once (weight_fragments.cuh).
struct Float4 {
  std::uint8_t bits;
};
PAGODA_HOST_DEVICE constexpr std::int32_t float4_nibble(std::int32_t i) {
  return 8 * (i % 8 / 2) + 4 * (i % 2) + 3 - i / 8;
}
PAGODA_HOST_DEVICE constexpr std::int32_t float4_byte(std::int32_t i) { return float4_nibble(i) / 2; }
PAGODA_HOST_DEVICE constexpr std::int32_t float4_shift(std::int32_t i) { return 4 * (float4_nibble(i) % 2); }
PAGODA_HOST_DEVICE constexpr std::int32_t float4_row_bytes(std::int32_t k) {
  return k / 2 + (k / kQuantizedGroup + 15) / 16 * 16;
}
// Likewise with 8-bit floats (e4m3) instead of powers of two, one per kFloat4Scale of k, in which 0x7F is
// 480, followed by the row's Float4Factors (NVFP4). w = scale * code * factor / divisor. In products by
// tiles, codes times their scales are exact in bfloat16, and factors.all multiplies a finished sum.
struct Float4Scaled {
  std::uint8_t bits;
};
struct Float4Factors {
  float all, factor, divisor;  // all: factor / divisor
  std::uint32_t unused;
};
inline constexpr std::int32_t kFloat4Scale = 16;
PAGODA_HOST_DEVICE constexpr std::int32_t float4_scaled_factors(std::int32_t k) {
  return k / 2 + (k / kFloat4Scale + 15) / 16 * 16;
}
PAGODA_HOST_DEVICE constexpr std::int32_t float4_scaled_row_bytes(std::int32_t k) {
  return float4_scaled_factors(k) + std::int32_t{sizeof(Float4Factors)};
}
static_assert(sizeof(Float4Factors) == 16);

}  // namespace pagoda::device
