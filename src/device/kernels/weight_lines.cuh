#pragma once
// Quantised weights of a row, 128 of them in a thread's registers, widened to bfloat16 in pieces of 8, for
// lines of shared memory. The values are those of weight_fragments.cuh, bit by bit: here a thread has a whole
// row, which a warp's lanes share there.
#include "device/kernels/weight_fragments.cuh"

namespace pagoda::device::kernels {

// The weights as stored in memory. Rows begin at multiples of 16 bytes, and so does each 128 of their
// weights.
template <class T>
struct WeightUnit {
  static constexpr int kBytes = kQuantizedUnit / kQuantizedGroup * kBytesOfGroup<T>, kPieces = kBytes / 16;
  static_assert(kBytes % 16 == 0);
  FourWords at[kPieces];

  // `left`: remaining bytes of the row.
  __device__ __forceinline__ void load(const unsigned char* from, int left) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      if (16 * i < left) at[i] = load_whole<FourWords>(from + 16 * i);
  }
  __device__ __forceinline__ std::uint32_t word(int i) const { return at[i / 4].at[i % 4]; }
  __device__ __forceinline__ float number(int i) const { return __uint_as_float(word(i)); }
};

// 32 weights from `group` * 32 on. Register i of lane `lane` % 4 is its pair of piece i.
using WidePieces = FourWords[4];

template <class Widen>
__device__ __forceinline__ void widen_lanes(const Widen& widen_all, WidePieces& out) {
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    std::uint32_t pairs[4];
    widen_all(lane, pairs);
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i].at[lane] = pairs[i];
  }
}

__device__ __forceinline__ void widen_group(const WeightUnit<Quantized4>& unit, int group, WidePieces& out) {
  const int first = 6 * group;
  widen_lanes(
      [&](int lane, std::uint32_t(&pairs)[4]) {
        const StoredFour stored = {
            {{unit.number(first), unit.number(first + 1)}},
            __byte_perm(unit.word(first + 2 + lane / 2), unit.word(first + 4 + lane / 2),
                        lane % 2 == 0 ? 0x5410u : 0x7632u)};
        stored.widen_all(pairs);
      },
      out);
}

__device__ __forceinline__ void widen_group(const WeightUnit<Quantized8>& unit, int group, WidePieces& out) {
  widen_lanes(
      [&](int lane, std::uint32_t(&pairs)[4]) {
        StoredEight stored;
        stored.scale = unit.number(9 * group);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          stored.codes[i] = unit.word(9 * group + 1 + 2 * i + lane / 2) >> lane % 2 * 16;
        stored.widen_all(pairs);
      },
      out);
}

__device__ __forceinline__ void widen_group(const WeightUnit<Quantized4K>& unit, int group, WidePieces& out) {
  const UnitFour numbers = {unit.at[0]};
  widen_lanes(
      [&](int lane, std::uint32_t(&pairs)[4]) {
        numbers.widen_all(group, unit.word(4 + 4 * group + lane), pairs);
      },
      out);
}

__device__ __forceinline__ void widen_group(const WeightUnit<Quantized5K>& unit, int group, WidePieces& out) {
  widen_lanes(
      [&](int lane, std::uint32_t(&pairs)[4]) {
        const UnitFive numbers = {{unit.at[0]}, unit.word(20 + lane)};
        numbers.widen_all(group, unit.word(4 + 4 * group + lane), pairs);
      },
      out);
}

__device__ __forceinline__ void widen_group(const WeightUnit<Quantized6K>& unit, int group, WidePieces& out) {
  const UnitSix numbers = {{{unit.word(24), unit.word(25)}}, unit.number(26)};
  widen_lanes(
      [&](int lane, std::uint32_t(&pairs)[4]) {
        numbers.widen_all(group, unit.word(4 * group + lane), unit.word(16 + group / 2 * 4 + lane), pairs);
      },
      out);
}

}  // namespace pagoda::device::kernels
