#pragma once
// How rows of weights that stay quantised lie in device memory: what the loader writes
// (kernels/device/stored_rows.h) and kernels read (stored_weights.cuh). The same for nvcc and for the host's
// compiler.
#include <cstdint>

// A function that nvcc compiles for both sides.
#ifdef __CUDACC__
#define PAGODA_HOST_DEVICE __host__ __device__
#else
#define PAGODA_HOST_DEVICE
#endif

namespace pagoda::device {

// 32 neighbours in a row of weights that stay quantised, as their file has them; rows are whole groups.
// w = scale * n + minimum, n in 0..15: codes[i] has that of weight i (low bits) and of weight 16 + i (high).
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

// kQuantizedUnit neighbours in a row of Q4_K, Q5_K or Q6_K: half of a block of the file, with its scales in
// whole bytes and its codes in the order in which a warp's lanes load them for products
// (weight_fragments.cuh). The code of weight i lies at code_byte(i): in the low bits of that byte, or in its
// high ones where i % 32
// >= 16.
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
// w = scale * scales[i / 16] * (n - 32), n in 0..63. The two highest bits of n lie in `high`: a byte there
// has those of the byte's low and high code in codes[] of one 32, then those of the next 32.
struct Quantized6K {
  std::uint8_t codes[64];
  std::uint8_t high[32];
  std::int8_t scales[8];
  float scale;
  std::uint32_t unused;
};
// As Quantized4K, n in 0..31. The highest bit of n lies in `high`: a byte there has those of the byte's low
// and high code in codes[] of the first 32, then those of the next ones.
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

// A row of 8-bit floats (e4m3): its k codes, a multiple of 32, and behind them their scales in f32, filled up
// to a multiple of 16 bytes: one (Float8), or one for each kFloat8Scale of k (Float8Blocks). w = scale *
// code. In products by tiles the codes of each kFloat8Scale of k are summed up by themselves; a scale
// multiplies a finished sum. The code of weight i of 32 lies at float8_byte(i): a warp's lanes load eight of
// them at once (weight_fragments.cuh).
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
// A row of 4-bit floats (e2m1) with powers of two (MXFP4): its k codes, a multiple of 32, two in a byte, and
// behind them a byte for each kQuantizedGroup of k, filled up to a multiple of 16 bytes. w = 2^(byte - 127) *
// code. The code of weight i of 32 lies in float4_byte(i), from bit float4_shift(i) on: a warp's lanes load
// eight of them at once (weight_fragments.cuh).
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
// The same with 8-bit floats (e4m3) in the places of the powers of two, one for each kFloat4Scale of k, in
// which 0x7F is 480; and behind them the row's Float4Factors (NVFP4). w = scale * code * factor / divisor. In
// products by tiles codes times their scales are exact in bfloat16, and factors.all multiplies a finished
// sum.
struct Float4Scaled {
  std::uint8_t bits;
};
struct Float4Factors {
  float all, factor, divisor;  // all: the quotient
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
