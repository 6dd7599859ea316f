#pragma once
// Matrix product in its plain form: a thread an output element, whose inputs pass through shared memory in
// tiles. Every element is summed up over k in ascending order, so that its bits depend on its own row and
// column alone: batch-invariant. grid: (tiles of n, tiles of rows); block: (kLinearTile, kLinearTile);
// shared: kLinearSharedBytes.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device::kernels {

template <class T>
__device__ __forceinline__ void multiply_tile(const LinearArgs& args) {
  PAGODA_SHARED(float, shared);
  float* const x_tile = shared;                                          // [row][k], a column of padding
  float* const weight_tile = shared + kLinearTile * (kLinearDepth + 1);  // [n][k]
  const int column = static_cast<int>(threadIdx.x), line = static_cast<int>(threadIdx.y);
  const int first_n = static_cast<int>(blockIdx.x) * kLinearTile,
            first_row = static_cast<int>(blockIdx.y) * kLinearTile;
  const int n = first_n + column, row = first_row + line;
  const T* const weight = static_cast<const T*>(args.weight);
  float sum = 0;
  for (int first_k = 0; first_k < args.k; first_k += kLinearDepth) {
    // A line of threads loads a line of each tile.
    for (int i = column; i < kLinearDepth; i += kLinearTile) {
      const int k = first_k + i, weight_row = first_n + line;
      x_tile[line * (kLinearDepth + 1) + i] =
          row < args.rows && k < args.k ? args.x[static_cast<std::int64_t>(row) * args.k + k] : 0.0f;
      weight_tile[line * (kLinearDepth + 1) + i] =
          weight_row < args.n && k < args.k
              ? to_float(weight[static_cast<std::int64_t>(weight_row) * args.k + k])
              : 0.0f;
    }
    __syncthreads();
    const int depth = args.k - first_k < kLinearDepth ? args.k - first_k : kLinearDepth;
    if (row < args.rows && n < args.n)
      for (int i = 0; i < depth; ++i)
        sum = fmaf(x_tile[line * (kLinearDepth + 1) + i], weight_tile[column * (kLinearDepth + 1) + i], sum);
    __syncthreads();
  }
  if (row >= args.rows || n >= args.n) return;
  if (args.bias != nullptr) sum += args.bias[n];
  float* const y = args.y + static_cast<std::int64_t>(row) * args.n + n;
  *y = args.accumulate != 0 ? *y + sum : sum;
}

__global__ void linear_f32(LinearArgs args) { multiply_tile<float>(args); }
__global__ void linear_bf16(LinearArgs args) { multiply_tile<Bf16>(args); }

}  // namespace pagoda::device::kernels
