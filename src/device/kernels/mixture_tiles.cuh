#pragma once
// Products of the pairs of one expert (mixture.cuh) by tiles (linear_few.cuh), kFewRows of pairs a tile: a
// pair's bits are those of its row of x, times its factor, by the expert's matrix alone.
#include "device/kernels/linear_few.cuh"
#include "device/kernels/mixture.cuh"

namespace pagoda::device::kernels {

struct PairLines {
  static constexpr bool kWeighed = true;
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

// grid: (most_tiles(), tiles of n); block and shared as linear_few.
template <class T>
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
  linear_few<T>(of_expert, InputNorm(), OutputFunction(), PairLines{args, pairs},
                static_cast<int>(blockIdx.y));
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

}  // namespace pagoda::device::kernels
