#pragma once
// Products of the pairs of one expert (mixture.cuh) by tiles (linear_few.cuh), with kFewRows pairs per tile:
// a pair's bits are those of its row of x, times its factor, by the expert's matrix alone.
#include "device/kernels/float8_args.h"
#include "device/kernels/linear_few.cuh"
#include "device/kernels/mixture.cuh"

namespace pagoda::device::kernels {

struct PairLines {
  static constexpr bool kWeighed = true, kScaled = false;
  static constexpr int kMost = kPairsOfTile;
  const GroupedLinearArgs& args;
  TileOfPairs pairs;
  __device__ __forceinline__ int count() const { return pairs.behind - pairs.first; }
  __device__ __forceinline__ int pair(int line) const { return args.slots[pairs.first + line]; }
  __device__ __forceinline__ const float* x(int line) const {
    return args.x + static_cast<std::int64_t>(pair(line) / args.pairs_of_row) * args.k;
  }
  __device__ __forceinline__ float* y(int line) const {
    return args.y + static_cast<std::int64_t>(pair(line)) * args.n;
  }
  __device__ __forceinline__ const std::uint16_t* rounded(int) const { return nullptr; }
  __device__ __forceinline__ float factor(int line) const {
    return args.factors != nullptr ? args.factors[pair(line)] : 1.0f;
  }
};

// Rows of 8-bit floats, whose factors multiply their scales.
struct CodeLines {
  static constexpr bool kWeighed = false, kScaled = true;
  static constexpr int kMost = kPairsOfTile;
  PairLines lines;
  __device__ __forceinline__ std::int64_t row(int line) const {
    return lines.pair(line) / lines.args.pairs_of_row;
  }
  __device__ __forceinline__ int count() const { return lines.count(); }
  __device__ __forceinline__ const float* x(int) const { return lines.args.scales; }  // never read
  __device__ __forceinline__ float* y(int line) const { return lines.y(line); }
  __device__ __forceinline__ const std::uint16_t* rounded(int line) const {
    return lines.args.codes + row(line) * lines.args.k;
  }
  __device__ __forceinline__ float factor(int) const { return 1; }
  __device__ __forceinline__ int row_scales() const {
    return float8_row_scales(lines.args.k, lines.args.blocks != 0);
  }
  __device__ __forceinline__ const float* scales(int line) const {
    return lines.args.scales + row(line) * row_scales();
  }
  __device__ __forceinline__ float factor_of_scales(int line) const { return lines.factor(line); }
};

// grid: (most_tiles(), tiles of n); block and shared as in linear_few.
template <class T, bool codes = false>
__device__ __forceinline__ void grouped_tiles(const GroupedLinearArgs& args) {
  begin_kernel();
  static_assert(kFewRows.rows == kPairsOfTile);
  const TileOfPairs pairs = args.tiles[blockIdx.x];
  if (pairs.expert < 0) return;
  const std::int64_t row = static_cast<std::int64_t>(pairs.expert) * args.n;
  LinearArgs of_expert;
  of_expert.weight = stored_row(static_cast<const T*>(args.weight), row, args.k);
  of_expert.bias = args.bias != nullptr ? args.bias + row : nullptr;
  of_expert.n = of_expert.stride = args.n;
  of_expert.k = args.k;
  of_expert.rounded = const_cast<std::uint16_t*>(args.codes);
  const PairLines lines = {args, pairs};
  const int tile = static_cast<int>(blockIdx.y);
  if constexpr (codes)
    linear_few<T>(of_expert, InputNorm(), OutputFunction(), CodeLines{lines}, tile);
  else
    linear_few<T>(of_expert, InputNorm(), OutputFunction(), lines, tile);
}

#define PAGODA_GROUPED_KERNEL(name, T)                                                             \
  __global__ void __launch_bounds__(kFewThreads, 2) grouped_tiles_##name(GroupedLinearArgs args) { \
    grouped_tiles<T>(args);                                                                        \
  }
PAGODA_GROUPED_KERNEL(bf16, Bf16)
PAGODA_GROUPED_KERNEL(q4, Quantized4)
PAGODA_GROUPED_KERNEL(q8, Quantized8)
PAGODA_GROUPED_KERNEL(q4_k, Quantized4K)
PAGODA_GROUPED_KERNEL(q5_k, Quantized5K)
PAGODA_GROUPED_KERNEL(q6_k, Quantized6K)
PAGODA_GROUPED_KERNEL(fp8, Float8)
PAGODA_GROUPED_KERNEL(fp8_blocks, Float8Blocks)
PAGODA_GROUPED_KERNEL(mxfp4, Float4)
PAGODA_GROUPED_KERNEL(nvfp4, Float4Scaled)
#undef PAGODA_GROUPED_KERNEL

// Products of codes are exact in f32, as are those of bfloat16. A chain of kFloat8Scale is multiplied by the
// scale of the weights times that of the row, and added to the previous ones.
__global__ void __launch_bounds__(kFewThreads, 2) grouped_float8(GroupedLinearArgs args) {
  grouped_tiles<Float8Blocks, true>(args);
}

}  // namespace pagoda::device::kernels
