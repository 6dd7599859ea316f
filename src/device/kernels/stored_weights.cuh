#pragma once
// Weights as stored in memory, for every type: their size in bytes, and the value of a single weight.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device::kernels {

// Bytes of 32 weights of a row, or a substitute for that number (launch_shapes.h).
template <class T>
inline constexpr int kGroupBytes = static_cast<int>(sizeof(T));
template <>
inline constexpr int kGroupBytes<Bf16> = 64;
template <>
inline constexpr int kGroupBytes<Quantized4K> = static_cast<int>(sizeof(Quantized4K)) / 4;
template <>
inline constexpr int kGroupBytes<Quantized5K> = kQuantized5KGroup;
template <>
inline constexpr int kGroupBytes<Quantized6K> = static_cast<int>(sizeof(Quantized6K)) / 4;
template <>
inline constexpr int kGroupBytes<Float8> = kFloat8Group;
template <>
inline constexpr int kGroupBytes<Float8Blocks> = kFloat8BlocksGroup;
template <>
inline constexpr int kGroupBytes<Float4> = kFloat4Group;
template <>
inline constexpr int kGroupBytes<Float4Scaled> = kFloat4ScaledGroup;
// The true number of bytes, for groups and units.
template <class T>
inline constexpr int kBytesOfGroup =
    kGroupBytes<T> == kQuantized5KGroup ? static_cast<int>(sizeof(Quantized5K)) / 4 : kGroupBytes<T>;
// 8-bit floats, with scales after a row: one, or one per block of it.
template <class T>
inline constexpr bool kFloats8 = is_float8(kGroupBytes<T>);
template <class T>
inline constexpr bool kScalesOfBlocks = kGroupBytes<T> == kFloat8BlocksGroup;

// 4-bit floats, whose row is followed by a byte for each kOfFloat4Byte of them: powers of two, or scales.
template <class T>
inline constexpr bool kFloats4 = is_float4(kGroupBytes<T>);
template <class T>
inline constexpr int kOfFloat4Byte = kGroupBytes<T> == kFloat4ScaledGroup ? kFloat4Scale : kQuantizedGroup;
// Types whose row sums are multiplied by a number.
template <class T>
inline constexpr bool kScalesOfRows = kGroupBytes<T> == kFloat8Group || kGroupBytes<T> == kFloat4ScaledGroup;

// Number of elements of T that store `k` weights of a row.
template <class T>
__device__ __forceinline__ int stored_elements(int k) {
  if constexpr (kFloats8<T>) return float8_row_bytes(k, kScalesOfBlocks<T>);
  if constexpr (kFloats4<T>) return kScalesOfRows<T> ? float4_scaled_row_bytes(k) : float4_row_bytes(k);
  if constexpr (sizeof(T) <= 4) return k;
  if constexpr (sizeof(T) > 4) return k / (32 * static_cast<int>(sizeof(T)) / kBytesOfGroup<T>);
}

// Weight i of a row of k, in float32, as the host's dequantiser computes it.
template <class T>
__device__ __forceinline__ float weight_of(const T* row, int i, int) {
  return to_float(row[i]);
}
__device__ __forceinline__ float weight_of(const Quantized4* row, int i, int) {
  const Quantized4& group = row[i / kQuantizedGroup];
  const int at = i % kQuantizedGroup;
  const int code = at < 16 ? group.codes[at] & 15 : group.codes[at - 16] >> 4;
  return group.scale * static_cast<float>(code) + group.minimum;
}
__device__ __forceinline__ float weight_of(const Quantized8* row, int i, int) {
  const Quantized8& group = row[i / kQuantizedGroup];
  return group.scale * static_cast<float>(group.codes[i % kQuantizedGroup]);
}
__device__ __forceinline__ float weight_of(const Quantized4K* row, int i, int) {
  const Quantized4K& unit = row[i / kQuantizedUnit];
  const int at = i % kQuantizedUnit;
  const int code = unit.codes[code_byte(at)] >> (at % 32 < 16 ? 0 : 4) & 15;
  return unit.scale * static_cast<float>(unit.scales[at / 32]) * static_cast<float>(code) -
         unit.minimum * static_cast<float>(unit.minima[at / 32]);
}
__device__ __forceinline__ float weight_of(const Quantized5K* row, int i, int) {
  const Quantized5K& unit = row[i / kQuantizedUnit];
  const int at = i % kQuantizedUnit;
  const int low = unit.codes[code_byte(at)] >> (at % 32 < 16 ? 0 : 4) & 15;
  const int high = unit.high[code_byte(at % 32)] >> fifth_bit(at) & 1;
  return unit.scale * static_cast<float>(unit.scales[at / 32]) * static_cast<float>(high << 4 | low) -
         unit.minimum * static_cast<float>(unit.minima[at / 32]);
}
__device__ __forceinline__ float weight_of(const Quantized6K* row, int i, int) {
  const Quantized6K& unit = row[i / kQuantizedUnit];
  const int at = i % kQuantizedUnit;
  const int low = unit.codes[code_byte(at)] >> (at % 32 < 16 ? 0 : 4) & 15;
  const int high = unit.high[high_byte(at)] >> high_shift(at) & 3;
  return unit.scale * static_cast<float>(unit.scales[at / 16]) * static_cast<float>((high << 4 | low) - 32);
}
__device__ __forceinline__ const float* float8_scales(const void* row, int k) {
  return reinterpret_cast<const float*>(static_cast<const unsigned char*>(row) + k);
}
__device__ __forceinline__ float weight_of(const Float8* row, int i, int k) {
  return float8_value(row[i / 32 * 32 + float8_byte(i % 32)].bits) * float8_scales(row, k)[0];
}
__device__ __forceinline__ float weight_of(const Float8Blocks* row, int i, int k) {
  return float8_value(row[i / 32 * 32 + float8_byte(i % 32)].bits) * float8_scales(row, k)[i / kFloat8Scale];
}
// 2^(byte - 127)
__device__ __forceinline__ float power_of_byte(std::uint8_t byte) {
  return __uint_as_float(byte == 0 ? 0x00400000u : static_cast<std::uint32_t>(byte) << 23);
}
// `row`: the codes of a row of 4-bit floats.
__device__ __forceinline__ float float4_value(const void* row, int i) {
  const std::uint32_t byte = static_cast<const unsigned char*>(row)[i / 32 * 16 + float4_byte(i % 32)];
  const std::uint32_t code = byte >> float4_shift(i % 32) & 15u;
  // As bits of a float, exponent and fraction give a number 2^-126 times as large.
  return __uint_as_float((code & 8u) << 28 | (code & 7u) << 22) * 0x1p126f;
}
__device__ __forceinline__ float weight_of(const Float4* row, int i, int k) {
  return float4_value(row, i) * power_of_byte(row[k / 2 + i / 32].bits);
}
__device__ __forceinline__ float weight_of(const Float4Scaled* row, int i, int k) {
  const float scale = float8_value(row[k / 2 + i / kFloat4Scale].bits);
  const auto& factors = *reinterpret_cast<const Float4Factors*>(row + float4_scaled_factors(k));
  return float4_value(row, i) * (scale * factors.factor / factors.divisor);
}

// The number by which the row's sum is multiplied.
template <class T>
__device__ __forceinline__ float row_scale(const T* row, int k) {
  if constexpr (kFloats4<T>)
    return reinterpret_cast<const Float4Factors*>(row + float4_scaled_factors(k))->all;
  else
    return float8_scales(row, k)[0];
}

// Row `row` of [rows, k], in one matrix or in several that are stacked.
template <class T>
__device__ __forceinline__ const T* stored_row(const T* weight, std::int64_t row, int k) {
  return weight + row * stored_elements<T>(k);
}

}  // namespace pagoda::device::kernels
