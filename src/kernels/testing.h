#pragma once
// Helpers for the kernels' tests: the CPU levels of this machine, and pseudo-random data from a seed.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/dequantize.h"
#include "kernels/linear.h"

namespace pagoda {

inline std::vector<CpuLevel> levels_here() {
  std::vector<CpuLevel> levels = {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512};
  std::erase_if(levels, [](CpuLevel level) { return !cpu_level_usable(level); });
  return levels;
}

constexpr LinearType kLinearTypes[] = {LinearType::float32, LinearType::bfloat16, LinearType::float16,
                                       LinearType::int8};

// All types that models can be run from.
inline std::vector<DType> weight_types() {
  std::vector<DType> types;
  for (std::size_t i = 0; i < std::size(kDTypes); ++i)
    if (kDTypes[i].gguf >= 0 || is_quantized(static_cast<DType>(i))) types.push_back(static_cast<DType>(i));
  return types;
}

// Approximately normal: the centred sum of four uniforms, variance 1/3.
inline std::vector<float> random_floats(std::uint64_t seed, std::size_t count, float scale = 1.0f) {
  // Two 64-bit random numbers per element: tests draw many elements and are not optimised.
  const std::uint64_t key = mix64(seed);
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t a = mix64(key ^ (2 * i)), b = mix64(key ^ (2 * i + 1));
    const double sum = static_cast<double>((a >> 32) + (a & 0xFFFFFFFFu) + (b >> 32) + (b & 0xFFFFFFFFu));
    out[i] = static_cast<float>(sum * 0x1p-32 - 2) * scale;
  }
  return out;
}

// The offset of a block's half-precision scale and, unless 0, of its minimum; or the kind of scale that it
// has instead.
enum class ScaleKind { half, exponent, fp8, spread };
struct ScalesAt {
  std::size_t scale = 0, minimum = 0;
  ScaleKind kind = ScaleKind::half;
};
inline ScalesAt scales_at(DType dtype) {
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {.minimum = 2};
    case DType::q2_k:
      return {.scale = 80, .minimum = 82};
    case DType::q3_k:
      return {.scale = 108};
    case DType::q6_k:
      return {.scale = 208};
    case DType::tq1_0:
      return {.scale = 52};
    case DType::tq2_0:
      return {.scale = 64};
    case DType::mxfp4:
      return {.kind = ScaleKind::exponent};
    case DType::nvfp4:
      return {.kind = ScaleKind::fp8};
    case DType::iq1_m:
      return {.scale = 48, .kind = ScaleKind::spread};
    default:
      return {};
  }
}

// A scale in the top 4 bits of each of 4 numbers (ScaleKind::spread).
inline void put_spread(std::byte* numbers, std::uint16_t scale) {
  for (std::size_t s = 0; s < 4; ++s) {
    std::byte& high = numbers[2 * s + 1];
    high = (high & std::byte{15}) | static_cast<std::byte>(scale >> (4 * s) << 4 & 240);
  }
}

// The scales of a block of float codes (one per four blocks of 8-bit codes); also replaces codes that are not
// numbers.
inline void put_code_scales(std::uint64_t seed, DType dtype, std::byte* block, std::size_t index) {
  const auto a_number = [](std::byte& e4m3) {
    if ((e4m3 & std::byte{0x7f}) == std::byte{0x7f}) e4m3 ^= std::byte{1};
  };
  const std::size_t group = dtype == DType::fp8 ? index / 4 : dtype == DType::nf4 ? index : 0;
  const auto scale = static_cast<float>(0.001 + random_uniform(seed, 1, group) * 0.01);
  std::memcpy(block, &scale, 4);
  if (dtype == DType::fp8)
    for (int i = 4; i < 36; ++i) a_number(block[i]);
  if (dtype != DType::nvfp4_scaled) return;
  const auto divisor = static_cast<float>(1 + random_uniform(seed, 2, 0));
  std::memcpy(block + 4, &divisor, 4);
  for (int i = 8; i < 12; ++i) a_number(block[i]);
}

// Random bytes for `elements` weights stored as `dtype`, with scales of reasonable size.
inline std::vector<std::byte> random_weights(std::uint64_t seed, DType dtype, std::int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(dtype_bytes(dtype, elements)));
  const auto put16 = [&](std::size_t at, std::uint16_t bits) { std::memcpy(bytes.data() + at, &bits, 2); };
  if (!is_quantized(dtype)) {
    const std::vector<float> values = random_floats(seed, static_cast<std::size_t>(elements), 0.1f);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::f32) std::memcpy(bytes.data() + 4 * i, &values[i], 4);
      if (dtype == DType::f16) put16(2 * i, float_to_half(values[i]));
      if (dtype == DType::bf16) put16(2 * i, float_to_bfloat16(values[i]));
    }
    return bytes;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(random_bits(seed, 9, i) & 255);
  const auto block = static_cast<std::size_t>(info.block_bytes);
  const ScalesAt scales = scales_at(dtype);
  const bool super = info.block_elements == 256;
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    const auto d = static_cast<float>(random_uniform(seed, 1, at) * 0.02 / (super ? 16 : 1));
    const auto m = static_cast<float>((random_uniform(seed, 2, at) - 0.5) * 0.1 / (super ? 16 : 1));
    if (dtype == DType::int4 || dtype == DType::int8 || dtype == DType::int8m) {
      const float step = d / 4, zero = static_cast<float>(random_bits(seed, 3, at) % 16),
                  minimum = -step * zero;
      std::memcpy(bytes.data() + at, &step, 4);
      if (dtype != DType::int8) std::memcpy(bytes.data() + at + 4, &minimum, 4);
      continue;
    }
    if (dtype == DType::fp8 || dtype == DType::nf4 || dtype == DType::nvfp4_scaled) {
      put_code_scales(seed, dtype, bytes.data() + at, at / block);
      continue;
    }
    switch (scales.kind) {
      case ScaleKind::half:
        put16(at + scales.scale, float_to_half(d));
        break;
      case ScaleKind::exponent:
        bytes[at] = static_cast<std::byte>(118 + random_bits(seed, 1, at) % 4);
        break;
      case ScaleKind::fp8:  // 4 scales; adjacent ones are similar
        for (std::size_t s = 0; s < 4; ++s)
          bytes[at + s] = static_cast<std::byte>(8 + random_bits(seed, 1, at + s) % 16);
        break;
      case ScaleKind::spread:
        put_spread(bytes.data() + at + scales.scale, float_to_half(d));
        break;
    }
    if (scales.minimum != 0) put16(at + scales.minimum, float_to_half(m));
  }
  return bytes;
}

// Tensors that are packed as one weight, with the bytes that they view.
struct WeightBytes {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> views;
  void add(std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k) {
    bytes.push_back(random_weights(seed, dtype, n * k));
    views.push_back({dtype, {n, k}, bytes.back().data()});
  }
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

}  // namespace pagoda
