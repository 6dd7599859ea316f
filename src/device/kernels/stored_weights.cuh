#pragma once
// Weights as they lie in memory, of every type: how many bytes they take, and what one of them is worth.
#include "device/kernels/dialect.cuh"

namespace pagoda::device::kernels {

// Bytes of 32 weights of a row.
template <class T>
inline constexpr int kGroupBytes = static_cast<int>(sizeof(T));
template <>
inline constexpr int kGroupBytes<Bf16> = 64;
template <>
inline constexpr int kGroupBytes<Quantized4K> = static_cast<int>(sizeof(Quantized4K)) / 4;
template <>
inline constexpr int kGroupBytes<Quantized6K> = static_cast<int>(sizeof(Quantized6K)) / 4;

// How many elements of T `k` weights of a row are.
template <class T>
__device__ __forceinline__ int stored_elements(int k) {
  if constexpr (sizeof(T) <= 4) return k;
  if constexpr (sizeof(T) > 4) return k / (32 * static_cast<int>(sizeof(T)) / kGroupBytes<T>);
}

// Weight i of a row, in float32, as the host's dequantiser has it.
template <class T>
__device__ __forceinline__ float weight_of(const T* row, int i) {
  return to_float(row[i]);
}
__device__ __forceinline__ float weight_of(const Quantized4* row, int i) {
  const Quantized4& group = row[i / kQuantizedGroup];
  const int at = i % kQuantizedGroup;
  const int code = at < 16 ? group.codes[at] & 15 : group.codes[at - 16] >> 4;
  return group.scale * static_cast<float>(code) + group.minimum;
}
__device__ __forceinline__ float weight_of(const Quantized8* row, int i) {
  const Quantized8& group = row[i / kQuantizedGroup];
  return group.scale * static_cast<float>(group.codes[i % kQuantizedGroup]);
}
__device__ __forceinline__ float weight_of(const Quantized4K* row, int i) {
  const Quantized4K& unit = row[i / kQuantizedUnit];
  const int at = i % kQuantizedUnit;
  const int code = unit.codes[code_byte(at)] >> (at % 32 < 16 ? 0 : 4) & 15;
  return unit.scale * static_cast<float>(unit.scales[at / 32]) * static_cast<float>(code) -
         unit.minimum * static_cast<float>(unit.minima[at / 32]);
}
__device__ __forceinline__ float weight_of(const Quantized6K* row, int i) {
  const Quantized6K& unit = row[i / kQuantizedUnit];
  const int at = i % kQuantizedUnit;
  const int low = unit.codes[code_byte(at)] >> (at % 32 < 16 ? 0 : 4) & 15;
  const int high = unit.high[high_byte(at)] >> high_shift(at) & 3;
  return unit.scale * static_cast<float>(unit.scales[at / 16]) * static_cast<float>((high << 4 | low) - 32);
}

// Row `row` of [rows, k], of one matrix or of several below each other.
template <class T>
__device__ __forceinline__ const T* stored_row(const T* weight, std::int64_t row, int k) {
  return weight + row * stored_elements<T>(k);
}

}  // namespace pagoda::device::kernels
