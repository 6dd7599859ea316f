#pragma once
// Matrix product in float32 whose weights are copied asynchronously, in long stages of k: for routers of
// mixtures, which have few rows and columns, and other matrices in float32. An element's sum is computed as
// in linear.cuh: by one thread, k ascending. grid: (tiles of n, tiles of rows); block: kRouterRows *
// kRouterColumns; shared: kRouterSharedBytes. Rows of both matrices begin at multiples of 16 bytes.
#include "device/kernels/launch_shapes.h"
#include "device/kernels/linear_tiles.cuh"

namespace pagoda::device::kernels {

// Starts the copies of `count` of `lines` rows of a matrix [.., k] from `first_k` on; zeros beyond the end of
// k.
__device__ __forceinline__ void copy_floats(const float* from, int count, int lines, int k, int first_k,
                                            float* to) {
  constexpr int kPieces = kRouterDepth / 4;
  for (int i = static_cast<int>(threadIdx.x); i < lines * kPieces; i += kRouterRows * kRouterColumns) {
    const int line = i / kPieces, at = first_k + 4 * (i % kPieces);
    if (line >= count) continue;
    const bool there = at < k;
    copy_async(to + line * kRouterPitch + 4 * (i % kPieces),
               from + (there ? static_cast<std::int64_t>(line) * k + at : 0), there);
  }
}

__global__ void __launch_bounds__(kRouterRows* kRouterColumns) linear_router(LinearArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, shared);
  constexpr int kStage = (kRouterRows + kRouterColumns) * kRouterPitch;
  const int first_row = static_cast<int>(blockIdx.y) * kRouterRows,
            first_n = static_cast<int>(blockIdx.x) * kRouterColumns;
  const int line = static_cast<int>(threadIdx.x) / kRouterColumns,
            column = static_cast<int>(threadIdx.x) % kRouterColumns;
  const int rows = args.rows - first_row, columns = args.n - first_n;
  const bool has_work = line < rows && column < columns;
  const int stages = (args.k + kRouterDepth - 1) / kRouterDepth;
  const float* const x = args.x + static_cast<std::int64_t>(first_row) * args.k;
  const float* const weight =
      static_cast<const float*>(args.weight) + static_cast<std::int64_t>(first_n) * args.k;
  const auto copy = [&](int stage) {
    if (stage < stages) {
      float* const to = shared + stage % kRouterStages * kStage;
      copy_floats(x, rows, kRouterRows, args.k, stage * kRouterDepth, to);
      copy_floats(weight, columns, kRouterColumns, args.k, stage * kRouterDepth,
                  to + kRouterRows * kRouterPitch);
    }
    copies_commit();
  };
  for (int i = 0; i < kRouterStages - 1; ++i) copy(i);
  float sum = 0;
  for (int stage = 0; stage < stages; ++stage) {
    copies_wait<kRouterStages - 2>();
    __syncthreads();
    copy(stage + kRouterStages - 1);
    if (!has_work) continue;
    const float* const from = shared + stage % kRouterStages * kStage;
    const float* const left = from + line * kRouterPitch;
    const float* const right = from + (kRouterRows + column) * kRouterPitch;
    const int left_of_k = args.k - stage * kRouterDepth;
    const int depth = left_of_k < kRouterDepth ? left_of_k : kRouterDepth;
#pragma unroll 8
    for (int i = 0; i < depth / 4; ++i) {
      const auto a = load_whole<FourFloats>(left + 4 * i), b = load_whole<FourFloats>(right + 4 * i);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum = fmaf(a.at[j], b.at[j], sum);
    }
  }
  copies_wait<0>();
  if (!has_work) return;
  if (args.bias != nullptr) sum += args.bias[first_n + column];
  float* const y = args.y + static_cast<std::int64_t>(first_row + line) * args.stride + first_n + column;
  *y = args.accumulate != 0 ? *y + sum : sum;
}

}  // namespace pagoda::device::kernels
