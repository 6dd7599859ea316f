#pragma once
// Loads weights from a stage in shared memory into registers, as the right matrices of products in bfloat16:
// eight rows of the weights, 32 of k. This lane's row is lane / 4; its k in each 8 are 2 * (lane % 4) and the
// next. Quantised weights are widened in float32 and rounded; 8-bit floats are widened exactly, without their
// scale.
#include "device/kernels/launch_shapes.h"
#include "device/kernels/stored_weights.cuh"
#include "device/kernels/tile_words.cuh"

namespace pagoda::device::kernels {

// Bytes of a row of k weights, and bytes before its scales; the byte of the row from which a stage that
// begins at `first_k` is copied; and the beginning of the stage in that copy: bytes, or groups of 32 in a
// unit.
template <class T>
__device__ __forceinline__ int row_bytes_of(int k) {
  if constexpr (kFloats8<T> || kFloats4<T>) return stored_elements<T>(k);
  return kGroupBytes<T> == 64 ? 2 * k : k / kQuantizedGroup * kBytesOfGroup<T>;
}
template <class T>
__device__ __forceinline__ int code_bytes_of(int k) {
  return kFloats8<T> ? k : kFloats4<T> ? k / 2 : row_bytes_of<T>(k);
}
template <class T>
__device__ __forceinline__ int first_byte_of(int first_k) {
  if (kFloats8<T>) return first_k;
  if (kFloats4<T>) return first_k / 2;
  if (has_units(kGroupBytes<T>)) return first_k / kQuantizedUnit * static_cast<int>(sizeof(T));
  return first_k / kQuantizedGroup * kGroupBytes<T> / 16 * 16;
}
template <class T>
__device__ __forceinline__ int shift_of(int first_k) {
  if (kFloats8<T>) return 0;
  if (kFloats4<T>) return first_k / kOfFloat4Byte<T> % 16;
  if (has_units(kGroupBytes<T>)) return first_k % kQuantizedUnit / kQuantizedGroup;
  return first_k / kQuantizedGroup * kGroupBytes<T> % 16;
}

// The byte, in a row's scales, of the piece with the scale of `k`; and the place of the scale in that piece.
__device__ __forceinline__ int scale_piece(int k) { return k / (4 * kFloat8Scale) * 16; }
__device__ __forceinline__ int scale_place(int k) { return k / kFloat8Scale % 4; }

// Likewise for the bytes of 4-bit floats.
template <class T>
__device__ __forceinline__ int power_piece(int k) {
  return k / (16 * kOfFloat4Byte<T>)*16;
}

// The place of piece `piece` of line `line`: eight lines that are read at the same time are in different
// banks.
__device__ __forceinline__ int swizzled(int line, int piece, int line_bytes) {
  return line * line_bytes + 16 * (piece ^ (line & 7));
}
// Likewise for 8-bit floats, where a warp reads two pieces of each of four lines at the same time.
__device__ __forceinline__ int swizzled_twos(int line, int piece, int line_bytes) {
  const int lines = line_bytes < 128 ? 128 / line_bytes : 1;  // lines that fill all banks together
  return line * line_bytes + 16 * (piece ^ 2 * (line / lines & (4 / lines - 1)));
}
// The place for weights of type T.
template <class T>
__device__ __forceinline__ int place_of(int line, int piece, int line_bytes) {
  if constexpr (kFloats8<T>) return swizzled_twos(line, piece, line_bytes);
  return kGroupBytes<T> == 64 ? swizzled(line, piece, line_bytes) : line * line_bytes + 16 * piece;
}

// `lines`: the first of the eight rows in the stage; the next rows follow `pitch` bytes apart. `first_k`:
// from the stage's beginning on. `shift`: shift_of() the stage.
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Bf16*, int first_k,
                                             int, std::uint32_t (&out)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int at = swizzled(lane % 8, first_k / 8 + lane / 8, pitch);
  load_matrices<false>(reinterpret_cast<const Bf16*>(lines + at), out);
}

// Codes become floats without a conversion, which would be slow: a byte is inserted into the bits of another
// number. (128 + byte) / 256, for a byte below 128: `which` of four.
__device__ __forceinline__ float half_and_256th(std::uint32_t bytes, int which) {
  return __uint_as_float(__byte_perm(bytes, 0x3F000000u, 0x7044u | static_cast<unsigned>(which) << 8));
}
// 2^23 + byte
__device__ __forceinline__ float large_and_byte(std::uint32_t bytes, int which) {
  return __uint_as_float(__byte_perm(bytes, 0x4B000000u, 0x7440u | static_cast<unsigned>(which)));
}

// Computes scale * (128 + byte) / 256 + minimum for four bytes below 128, into two registers.
__device__ __forceinline__ void widen(std::uint32_t bytes, float scale, float minimum, std::uint32_t& first,
                                      std::uint32_t& second) {
  first =
      pack(fmaf(scale, half_and_256th(bytes, 0), minimum), fmaf(scale, half_and_256th(bytes, 1), minimum));
  second =
      pack(fmaf(scale, half_and_256th(bytes, 2), minimum), fmaf(scale, half_and_256th(bytes, 3), minimum));
}

// A lane's part of a group of 32 of its row: load() reads it as stored at `group`; widen_all() converts it to
// the registers of load_weights().
struct StoredFour {
  TwoFloats numbers;  // scale, minimum
  std::uint32_t codes;
  __device__ __forceinline__ void load(const unsigned char* group) {
    numbers = load_whole<TwoFloats>(group);
    const auto* const at = reinterpret_cast<const std::uint16_t*>(group + 8 + 2 * (threadIdx.x % 4));
    codes = at[0] | static_cast<std::uint32_t>(at[4]) << 16;
  }
  __device__ __forceinline__ void widen_all(std::uint32_t (&out)[4]) const {
    const float scale = 256 * numbers.at[0], minimum = numbers.at[1] - 0.5f * scale;
    widen(codes & 0x0F0F0F0Fu, scale, minimum, out[0], out[1]);
    widen(codes >> 4 & 0x0F0F0F0Fu, scale, minimum, out[2], out[3]);
  }
};
struct StoredEight {
  float scale;
  std::uint32_t codes[4];
  __device__ __forceinline__ void load(const unsigned char* group) {
    scale = *reinterpret_cast<const float*>(group);
    const auto* const at = reinterpret_cast<const std::uint16_t*>(group + 4 + 2 * (threadIdx.x % 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) codes[i] = at[4 * i];
  }
  __device__ __forceinline__ void widen_all(std::uint32_t (&out)[4]) const {
    constexpr float kOffset =
        8388608.0f + 128.0f;  // signed codes are 128 too high once their first bit is flipped
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t turned = codes[i] ^ 0x8080u;
      out[i] =
          pack(scale * (large_and_byte(turned, 0) - kOffset), scale * (large_and_byte(turned, 1) - kOffset));
    }
  }
};

__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized4*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  StoredFour stored;
  stored.load(lines + static_cast<int>(threadIdx.x % 32) / 4 * pitch + shift +
              first_k / kQuantizedGroup * kGroupBytes<Quantized4>);
  stored.widen_all(out);
}

__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized8*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  StoredEight stored;
  stored.load(lines + static_cast<int>(threadIdx.x % 32) / 4 * pitch + shift +
              first_k / kQuantizedGroup * kGroupBytes<Quantized8>);
  stored.widen_all(out);
}

// A unit's numbers, and a lane's codes of `group` of it. The scales are exact: 11 bits of a half and 6 or 8
// bits of their own.
struct UnitFour {
  FourWords numbers;
  __device__ __forceinline__ void load(const unsigned char* unit) { numbers = load_whole<FourWords>(unit); }
  static __device__ __forceinline__ std::uint32_t codes(const unsigned char* unit, int group) {
    return *reinterpret_cast<const std::uint32_t*>(unit + 16 + 16 * group + 4 * (threadIdx.x % 4));
  }
  // The arguments of widen().
  __device__ __forceinline__ TwoFloats scale_and_minimum(int group) const {
    constexpr float kLarge = 8388608.0f;
    const float unit_scale = 256 * __uint_as_float(numbers.at[0]),
                unit_minimum = -__uint_as_float(numbers.at[1]);
    const float scale = fmaf(unit_scale, large_and_byte(numbers.at[2], group), -kLarge * unit_scale);
    const float exact = fmaf(unit_minimum, large_and_byte(numbers.at[3], group), -kLarge * unit_minimum);
    return {{scale, fmaf(-0.5f, scale, exact)}};  // half a scale is exact
  }
  __device__ __forceinline__ void widen_all(int group, std::uint32_t codes, std::uint32_t (&out)[4]) const {
    const TwoFloats of = scale_and_minimum(group);
    widen(codes & 0x0F0F0F0Fu, of.at[0], of.at[1], out[0], out[1]);
    widen(codes >> 4 & 0x0F0F0F0Fu, of.at[0], of.at[1], out[2], out[3]);
  }
};
struct UnitFive {
  UnitFour four;
  std::uint32_t high;  // one word for all groups
  __device__ __forceinline__ void load(const unsigned char* unit) {
    four.load(unit);
    high = *reinterpret_cast<const std::uint32_t*>(unit + 80 + 4 * (threadIdx.x % 4));
  }
  __device__ __forceinline__ void widen_all(int group, std::uint32_t codes, std::uint32_t (&out)[4]) const {
    const TwoFloats of = four.scale_and_minimum(group);
    const std::uint32_t bits = high >> 2 * group;
    widen((codes & 0x0F0F0F0Fu) | (bits << 4 & 0x10101010u), of.at[0], of.at[1], out[0], out[1]);
    widen((codes >> 4 & 0x0F0F0F0Fu) | (bits << 3 & 0x10101010u), of.at[0], of.at[1], out[2], out[3]);
  }
};
struct UnitSix {
  TwoWords scales;
  float unit_scale;
  __device__ __forceinline__ void load(const unsigned char* unit) {
    scales = load_whole<TwoWords>(unit + 96);
    unit_scale = *reinterpret_cast<const float*>(unit + 104);
  }
  static __device__ __forceinline__ std::uint32_t low(const unsigned char* unit, int group) {
    return *reinterpret_cast<const std::uint32_t*>(unit + 16 * group + 4 * (threadIdx.x % 4));
  }
  // One word for two groups.
  static __device__ __forceinline__ std::uint32_t high(const unsigned char* unit, int group) {
    return *reinterpret_cast<const std::uint32_t*>(unit + 64 + 16 * (group / 2) + 4 * (threadIdx.x % 4));
  }
  __device__ __forceinline__ void widen_all(int group, std::uint32_t low, std::uint32_t both,
                                            std::uint32_t (&out)[4]) const {
    const std::uint32_t high = group % 2 == 0 ? both << 4 : both;
    constexpr float kOffset = 8388608.0f + 128.0f;  // as in StoredEight
    const std::uint32_t of_group = (group < 2 ? scales.at[0] : scales.at[1]) ^ 0x80808080u;
    const float scale = 256 * unit_scale;
    const float first = scale * (large_and_byte(of_group, group % 2 * 2) - kOffset),
                second = scale * (large_and_byte(of_group, group % 2 * 2 + 1) - kOffset);
    // scale / 256 * (128 + code - 160)
    widen((low & 0x0F0F0F0Fu) | (high & 0x30303030u), first, -0.625f * first, out[0], out[1]);
    widen((low >> 4 & 0x0F0F0F0Fu) | (high >> 2 & 0x30303030u), second, -0.625f * second, out[2], out[3]);
  }
};

// The copy of a stage begins with a whole unit, so that `group` of 32 is known at compile time if a stage has
// whole units.
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

// Both types have their low four bits in the same places.
template <class T, class Unit>
__device__ __forceinline__ void load_fours(const unsigned char* lines, int pitch, int first_k, int shift,
                                           std::uint32_t (&out)[4]) {
  const UnitPlace at = unit_place<T>(lines, pitch, first_k, shift);
  Unit unit;
  unit.load(at.unit);
  unit.widen_all(at.group, UnitFour::codes(at.unit, at.group), out);
}
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized4K*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  load_fours<Quantized4K, UnitFour>(lines, pitch, first_k, shift, out);
}
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized5K*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  load_fours<Quantized5K, UnitFive>(lines, pitch, first_k, shift, out);
}

__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Quantized6K*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  const UnitPlace at = unit_place<Quantized6K>(lines, pitch, first_k, shift);
  UnitSix unit;
  unit.load(at.unit);
  unit.widen_all(at.group, UnitSix::low(at.unit, at.group), UnitSix::high(at.unit, at.group), out);
}

// Widens the 8-bit floats in the odd bytes: sign, exponent and fraction move to their places in bfloat16;
// 2^120 corrects the exponent bias, also for subnormal numbers.
__device__ __forceinline__ std::uint32_t widen_odd(std::uint32_t codes) {
  return multiply_pair((codes & 0x80008000u) | (codes >> 4 & 0x07F007F0u), 0x7B807B80u);
}
// Widens four codes into two registers; the odd bytes come first.
__device__ __forceinline__ void widen_float8(std::uint32_t codes, std::uint32_t& first,
                                             std::uint32_t& second) {
  first = widen_odd(codes);
  second = widen_odd(codes << 8);
}
// This lane's codes of 32 of k, 16 of k per word.
__device__ __forceinline__ void load_codes8(const unsigned char* lines, int pitch, int first_k,
                                            std::uint32_t (&out)[2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int at = swizzled_twos(lane / 4, first_k / 16 + lane % 4 / 2, pitch) + 8 * (lane % 2);
  const auto codes = load_whole<TwoWords>(lines + at);
  out[0] = codes.at[0], out[1] = codes.at[1];
}
__device__ __forceinline__ void load_floats8(const unsigned char* lines, int pitch, int first_k,
                                             std::uint32_t (&out)[4]) {
  std::uint32_t codes[2];
  load_codes8(lines, pitch, first_k, codes);
  widen_float8(codes[0], out[0], out[1]);
  widen_float8(codes[1], out[2], out[3]);
}
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Float8*,
                                             int first_k, int, std::uint32_t (&out)[4]) {
  load_floats8(lines, pitch, first_k, out);
}
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Float8Blocks*,
                                             int first_k, int, std::uint32_t (&out)[4]) {
  load_floats8(lines, pitch, first_k, out);
}

// 4-bit floats are exact in bfloat16: sign, exponent and fraction move to their places, and 2^126 corrects
// the exponent bias. Then they are multiplied by a power of two per 32 of k, or by a scale per 16 of k; code
// and scale have six bits together. `codes`: this lane's eight codes.
struct StoredFloats4 {
  // The piece of a line with its powers of two, or scales.
  static __device__ __forceinline__ const unsigned char* powers(const unsigned char* line, int pitch) {
    return line + pitch - 16;
  }
  static __device__ __forceinline__ std::uint32_t codes(const unsigned char* line, int group) {
    return *reinterpret_cast<const std::uint32_t*>(line + 16 * group + 4 * (threadIdx.x % 4));
  }
  // The two numbers of eights `which` of k, times `factor`, which has the same value in both halves.
  static __device__ __forceinline__ std::uint32_t widen(std::uint32_t codes, int which,
                                                        std::uint32_t factor) {
    constexpr std::uint32_t kBias = 0x7E807E80u;
    const std::uint32_t two = codes << 4 * which;
    return multiply_pair(multiply_pair((two & 0x80008000u) | (two >> 6 & 0x01C001C0u), kBias), factor);
  }
  static __device__ __forceinline__ void widen_all(std::uint32_t codes, std::uint32_t power,
                                                   std::uint32_t (&out)[4]) {
    const std::uint32_t factor = (power == 0 ? 0x40u : power << 7) * 0x10001u;
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = widen(codes, i, factor);
  }
  // `scales`: a scale of the first 16 in the lowest byte, then a scale of the others.
  static __device__ __forceinline__ void widen_scaled(std::uint32_t codes, std::uint32_t scales,
                                                      std::uint32_t (&out)[4]) {
    const std::uint32_t both = widen_odd(__byte_perm(scales, 0, 0x1404u));
    const std::uint32_t factors[2] = {__byte_perm(both, 0, 0x1010u), __byte_perm(both, 0, 0x3232u)};
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = widen(codes, i, factors[i / 2]);
  }
};
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Float4*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  const unsigned char* const line = lines + static_cast<int>(threadIdx.x % 32) / 4 * pitch;
  const int group = first_k / kQuantizedGroup;
  StoredFloats4::widen_all(StoredFloats4::codes(line, group),
                           StoredFloats4::powers(line, pitch)[shift + group], out);
}
__device__ __forceinline__ void load_weights(const unsigned char* lines, int pitch, const Float4Scaled*,
                                             int first_k, int shift, std::uint32_t (&out)[4]) {
  const unsigned char* const line = lines + static_cast<int>(threadIdx.x % 32) / 4 * pitch;
  const int group = first_k / kQuantizedGroup;
  const auto* const scales =
      reinterpret_cast<const std::uint16_t*>(StoredFloats4::powers(line, pitch) + shift + 2 * group);
  StoredFloats4::widen_scaled(StoredFloats4::codes(line, group), *scales, out);
}

// A lane's part of 128 of k of its row, whole groups or a unit: load() reads them as stored in a stage, well
// before fragment() converts one of the four groups to the registers of load_weights(). `shift`: as in
// load_weights().
template <class T>
struct StoredStage;
template <>
struct StoredStage<Bf16> {
  std::uint32_t at[4][4];
  __device__ __forceinline__ void begin(const unsigned char*, int, int) {}
  __device__ __forceinline__ void load(const unsigned char* lines, int pitch, int group) {
    load_weights(lines, pitch, static_cast<const Bf16*>(nullptr), 32 * group, 0, at[group]);
  }
  __device__ __forceinline__ void fragment(int group, std::uint32_t (&out)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = at[group][i];
  }
};
// The address of this lane's row.
__device__ __forceinline__ const unsigned char* line_of_lane(const unsigned char* lines, int pitch) {
  return lines + static_cast<int>(threadIdx.x % 32) / 4 * pitch;
}
template <class T, class Group>
struct StoredGroups {
  Group at[4];
  __device__ __forceinline__ void begin(const unsigned char*, int, int) {}
  __device__ __forceinline__ void load(const unsigned char* lines, int pitch, int group) {
    at[group].load(line_of_lane(lines, pitch) + group * kGroupBytes<T>);
  }
  __device__ __forceinline__ void fragment(int group, std::uint32_t (&out)[4]) const {
    at[group].widen_all(out);
  }
};
template <>
struct StoredStage<Quantized4> : StoredGroups<Quantized4, StoredFour> {};
template <>
struct StoredStage<Quantized8> : StoredGroups<Quantized8, StoredEight> {};
template <class Unit>
struct StoredUnit {
  Unit unit;
  std::uint32_t codes[4];
  __device__ __forceinline__ void begin(const unsigned char* lines, int pitch, int) {
    unit.load(line_of_lane(lines, pitch));
  }
  __device__ __forceinline__ void load(const unsigned char* lines, int pitch, int group) {
    codes[group] = UnitFour::codes(line_of_lane(lines, pitch), group);
  }
  __device__ __forceinline__ void fragment(int group, std::uint32_t (&out)[4]) const {
    unit.widen_all(group, codes[group], out);
  }
};
template <>
struct StoredStage<Quantized4K> : StoredUnit<UnitFour> {};
template <>
struct StoredStage<Quantized5K> : StoredUnit<UnitFive> {};
template <>
struct StoredStage<Quantized6K> {
  UnitSix unit;
  std::uint32_t low[4], high[2];
  __device__ __forceinline__ void begin(const unsigned char* lines, int pitch, int) {
    unit.load(line_of_lane(lines, pitch));
  }
  __device__ __forceinline__ void load(const unsigned char* lines, int pitch, int group) {
    low[group] = UnitSix::low(line_of_lane(lines, pitch), group);
    if (group % 2 == 0) high[group / 2] = UnitSix::high(line_of_lane(lines, pitch), group);
  }
  __device__ __forceinline__ void fragment(int group, std::uint32_t (&out)[4]) const {
    unit.widen_all(group, low[group], high[group / 2], out);
  }
};
// 256 of k, for two parallel chains of products.
struct StoredFloats8 {
  std::uint32_t codes[8][2];
  __device__ __forceinline__ void begin(const unsigned char*, int, int) {}
  __device__ __forceinline__ void load(const unsigned char* lines, int pitch, int group) {
    load_codes8(lines, pitch, 32 * group, codes[group]);
  }
  __device__ __forceinline__ void fragment(int group, std::uint32_t (&out)[4]) const {
    widen_float8(codes[group][0], out[0], out[1]);
    widen_float8(codes[group][1], out[2], out[3]);
  }
};
template <>
struct StoredStage<Float8> : StoredFloats8 {};
template <>
struct StoredStage<Float8Blocks> : StoredFloats8 {};
template <>
struct StoredStage<Float4> {
  std::uint32_t powers, at[4];  // powers: one byte per group
  __device__ __forceinline__ void begin(const unsigned char* lines, int pitch, int shift) {
    powers = *reinterpret_cast<const std::uint32_t*>(
        StoredFloats4::powers(line_of_lane(lines, pitch), pitch) + shift);
  }
  __device__ __forceinline__ void load(const unsigned char* lines, int pitch, int group) {
    at[group] = StoredFloats4::codes(line_of_lane(lines, pitch), group);
  }
  __device__ __forceinline__ void fragment(int group, std::uint32_t (&out)[4]) const {
    StoredFloats4::widen_all(at[group], powers >> 8 * group & 0xFFu, out);
  }
};
template <>
struct StoredStage<Float4Scaled> {
  TwoWords scales;  // one byte per half of a group
  std::uint32_t at[4];
  __device__ __forceinline__ void begin(const unsigned char* lines, int pitch, int shift) {
    scales = load_whole<TwoWords>(StoredFloats4::powers(line_of_lane(lines, pitch), pitch) + shift);
  }
  __device__ __forceinline__ void load(const unsigned char* lines, int pitch, int group) {
    at[group] = StoredFloats4::codes(line_of_lane(lines, pitch), group);
  }
  __device__ __forceinline__ void fragment(int group, std::uint32_t (&out)[4]) const {
    StoredFloats4::widen_scaled(at[group], scales.at[group / 2] >> 16 * (group % 2), out);
  }
};
template <class T>
inline constexpr int kStoredGroups = kFloats8<T> ? 8 : 4;
template <class T>
__device__ __forceinline__ void load_stage(StoredStage<T>& stored, const unsigned char* lines, int pitch,
                                           int shift) {
  stored.begin(lines, pitch, shift);
#pragma unroll
  for (int group = 0; group < kStoredGroups<T>; ++group) stored.load(lines, pitch, group);
}

}  // namespace pagoda::device::kernels
