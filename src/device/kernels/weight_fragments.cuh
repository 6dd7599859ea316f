#pragma once
// Weights on their way from a stage in shared memory into registers, as the right matrices of products in
// bfloat16: eight rows of the weights, 32 of k. This lane's row is lane / 4; its k in each 8 are
// 2 * (lane % 4) and the next. Quantised ones are widened in float32 and rounded.
#include "device/kernels/launch_shapes.h"
#include "device/kernels/stored_weights.cuh"
#include "device/kernels/tile_words.cuh"

namespace pagoda::device::kernels {

// Bytes of a row of k weights; the byte of the row that a stage which begins at `first_k` is copied from; and
// where in that copy the stage begins: bytes, or groups of 32 of a unit.
template <class T>
__device__ __forceinline__ int row_bytes_of(int k) {
  return kGroupBytes<T> == 64 ? 2 * k : k / kQuantizedGroup * kGroupBytes<T>;
}
template <class T>
__device__ __forceinline__ int first_byte_of(int first_k) {
  if (has_units(kGroupBytes<T>)) return first_k / kQuantizedUnit * static_cast<int>(sizeof(T));
  return first_k / kQuantizedGroup * kGroupBytes<T> / 16 * 16;
}
template <class T>
__device__ __forceinline__ int shift_of(int first_k) {
  if (has_units(kGroupBytes<T>)) return first_k % kQuantizedUnit / kQuantizedGroup;
  return first_k / kQuantizedGroup * kGroupBytes<T> % 16;
}

// The place of piece `piece` of line `line`: eight lines that are read at once are in different banks.
__device__ __forceinline__ int swizzled(int line, int piece, int line_bytes) {
  return line * line_bytes + 16 * (piece ^ (line & 7));
}

// `lines`: the first of the eight rows in the stage, whose next ones lie `pitch` bytes further; `first_k`:
// from the stage's beginning on; `shift`: shift_of() the stage.
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Bf16*, int first_k,
                                             int, std::uint32_t (&out)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int at = swizzled(lane % 8, first_k / 8 + lane / 8, pitch);
  load_matrices<false>(reinterpret_cast<const Bf16*>(lines + at), out);
}

// Codes become floats without a conversion, which is slow: a byte goes into the bits of another number.
// (128 + byte) / 256, of a byte below 128: `which` of four.
__device__ __forceinline__ float half_and_256th(std::uint32_t bytes, int which) {
  return __uint_as_float(__byte_perm(bytes, 0x3F000000u, 0x7044u | static_cast<unsigned>(which) << 8));
}
// 2^23 + byte
__device__ __forceinline__ float large_and_byte(std::uint32_t bytes, int which) {
  return __uint_as_float(__byte_perm(bytes, 0x4B000000u, 0x7440u | static_cast<unsigned>(which)));
}

// scale * (128 + byte) / 256 + minimum of four bytes below 128: two registers.
__device__ __forceinline__ void widen(std::uint32_t bytes, float scale, float minimum, std::uint32_t& first,
                                      std::uint32_t& second) {
  first =
      pack(fmaf(scale, half_and_256th(bytes, 0), minimum), fmaf(scale, half_and_256th(bytes, 1), minimum));
  second =
      pack(fmaf(scale, half_and_256th(bytes, 2), minimum), fmaf(scale, half_and_256th(bytes, 3), minimum));
}

__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized4*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned char* const group =
      lines + lane / 4 * pitch + shift + first_k / kQuantizedGroup * kGroupBytes<Quantized4>;
  const auto numbers = load_whole<TwoFloats>(group);  // scale, minimum
  const float scale = 256 * numbers.at[0], minimum = numbers.at[1] - 0.5f * scale;
  const auto* const codes = reinterpret_cast<const std::uint16_t*>(group + 8 + 2 * (lane % 4));
  const std::uint32_t both = __byte_perm(codes[0], codes[4], 0x5410u);
  widen(both & 0x0F0F0F0Fu, scale, minimum, out[0], out[1]);
  widen(both >> 4 & 0x0F0F0F0Fu, scale, minimum, out[2], out[3]);
}

__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized8*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned char* const group =
      lines + lane / 4 * pitch + shift + first_k / kQuantizedGroup * kGroupBytes<Quantized8>;
  const float scale = *reinterpret_cast<const float*>(group);
  constexpr float kOffset =
      8388608.0f + 128.0f;  // signed codes are 128 too high once their first bit is turned
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t codes =
        *reinterpret_cast<const std::uint16_t*>(group + 4 + 2 * (lane % 4) + 8 * i) ^ 0x8080u;
    out[i] = pack(scale * (large_and_byte(codes, 0) - kOffset), scale * (large_and_byte(codes, 1) - kOffset));
  }
}

// Units lie in a stage from the beginning of one on, so that `group` of 32 is known where a stage has whole
// ones.
struct UnitPlace {
  const unsigned char* unit;
  int group;
};
template <class T>
__device__ __forceinline__ UnitPlace unit_place(const unsigned char* lines, int pitch, int first_k,
                                                int shift) {
  const int lane = static_cast<int>(threadIdx.x % 32), group = first_k / kQuantizedGroup + shift;
  return {lines + lane / 4 * pitch + group / 4 * static_cast<int>(sizeof(T)), group % 4};
}

// The scales are exact: 11 bits of a half and 6 or 8 of their own.
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized4K*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  constexpr float kLarge = 8388608.0f;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const UnitPlace at = unit_place<Quantized4K>(lines, pitch, first_k, shift);
  const auto numbers = load_whole<FourWords>(at.unit);
  const float unit_scale = 256 * __uint_as_float(numbers.at[0]),
              unit_minimum = -__uint_as_float(numbers.at[1]);
  const float scale = fmaf(unit_scale, large_and_byte(numbers.at[2], at.group), -kLarge * unit_scale);
  const float minimum =
      fmaf(unit_minimum, large_and_byte(numbers.at[3], at.group), -kLarge * unit_minimum) - 0.5f * scale;
  const std::uint32_t codes =
      *reinterpret_cast<const std::uint32_t*>(at.unit + 16 + 16 * at.group + 4 * (lane % 4));
  widen(codes & 0x0F0F0F0Fu, scale, minimum, out[0], out[1]);
  widen(codes >> 4 & 0x0F0F0F0Fu, scale, minimum, out[2], out[3]);
}

__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized6K*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  constexpr float kOffset = 8388608.0f + 128.0f;  // as of Quantized8
  const int lane = static_cast<int>(threadIdx.x % 32);
  const UnitPlace at = unit_place<Quantized6K>(lines, pitch, first_k, shift);
  const std::uint32_t low = *reinterpret_cast<const std::uint32_t*>(at.unit + 16 * at.group + 4 * (lane % 4)),
                      both = *reinterpret_cast<const std::uint32_t*>(at.unit + 64 + 16 * (at.group / 2) +
                                                                     4 * (lane % 4));
  const std::uint32_t high = at.group % 2 == 0 ? both << 4 : both;
  const auto numbers = load_whole<TwoWords>(at.unit + 96);
  const std::uint32_t scales = (at.group < 2 ? numbers.at[0] : numbers.at[1]) ^ 0x80808080u;
  const float unit_scale = 256 * *reinterpret_cast<const float*>(at.unit + 104);
  const float first = unit_scale * (large_and_byte(scales, at.group % 2 * 2) - kOffset),
              second = unit_scale * (large_and_byte(scales, at.group % 2 * 2 + 1) - kOffset);
  // scale / 256 * (128 + code - 160)
  widen((low & 0x0F0F0F0Fu) | (high & 0x30303030u), first, -0.625f * first, out[0], out[1]);
  widen((low >> 4 & 0x0F0F0F0Fu) | (high >> 2 & 0x30303030u), second, -0.625f * second, out[2], out[3]);
}

}  // namespace pagoda::device::kernels
