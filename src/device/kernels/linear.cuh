#pragma once
// Plain matrix product: one thread per output element, whose inputs pass through shared memory in tiles.
// Every element is summed over k in ascending order, so that its bits depend only on its own row and column
// (batch-invariant). grid: (tiles of n, tiles of rows); block: (kLinearTile, kLinearTile); shared:
// kLinearSharedBytes.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/stored_weights.cuh"

namespace pagoda::device::kernels {

// A thread's line of the tile: a row of x times `factor`, and a row of y. Null if there is no row.
struct TileLine {
  const float* x;
  float* y;
  float factor;
};

// weight [n, k], bias [n] or null. The tile's columns begin at first_n.
template <class T>
__device__ __forceinline__ void multiply_tile(const TileLine& at, const T* weight, const float* bias,
                                              int n_end, int k_end, bool accumulate) {
  PAGODA_SHARED(float, shared);
  float* const x_tile = shared;                                          // [row][k], a column of padding
  float* const weight_tile = shared + kLinearTile * (kLinearDepth + 1);  // [n][k]
  const int column = static_cast<int>(threadIdx.x), line = static_cast<int>(threadIdx.y);
  const int first_n = static_cast<int>(blockIdx.x) * kLinearTile, n = first_n + column;
  float sum = 0;
  for (int first_k = 0; first_k < k_end; first_k += kLinearDepth) {
    // A line of threads loads a line of each tile.
    for (int i = column; i < kLinearDepth; i += kLinearTile) {
      const int k = first_k + i, weight_row = first_n + line;
      x_tile[line * (kLinearDepth + 1) + i] = at.x != nullptr && k < k_end ? at.x[k] * at.factor : 0.0f;
      weight_tile[line * (kLinearDepth + 1) + i] =
          weight_row < n_end && k < k_end ? weight_of(stored_row(weight, weight_row, k_end), k, k_end) : 0.0f;
    }
    __syncthreads();
    const int depth = k_end - first_k < kLinearDepth ? k_end - first_k : kLinearDepth;
    if (at.x != nullptr && n < n_end)
      for (int i = 0; i < depth; ++i)
        sum = fmaf(x_tile[line * (kLinearDepth + 1) + i], weight_tile[column * (kLinearDepth + 1) + i], sum);
    __syncthreads();
  }
  if (at.x == nullptr || n >= n_end) return;
  if (bias != nullptr) sum += bias[n];
  at.y[n] = accumulate ? at.y[n] + sum : sum;
}

template <class T>
__device__ __forceinline__ void linear(const LinearArgs& args) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kLinearTile + threadIdx.y;
  TileLine at = {nullptr, nullptr, 1};
  if (row < args.rows) {
    at.x = args.x + row * args.k;
    at.y = args.y + row * args.stride;
  }
  multiply_tile(at, static_cast<const T*>(args.weight), args.bias, args.n, args.k, args.accumulate != 0);
}

__global__ void linear_f32(LinearArgs args) { linear<float>(args); }
__global__ void linear_bf16(LinearArgs args) { linear<Bf16>(args); }
__global__ void linear_q4(LinearArgs args) { linear<Quantized4>(args); }
__global__ void linear_q8(LinearArgs args) { linear<Quantized8>(args); }
__global__ void linear_q4_k(LinearArgs args) { linear<Quantized4K>(args); }
__global__ void linear_q5_k(LinearArgs args) { linear<Quantized5K>(args); }
__global__ void linear_q6_k(LinearArgs args) { linear<Quantized6K>(args); }
__global__ void linear_fp8(LinearArgs args) { linear<Float8>(args); }
__global__ void linear_fp8_blocks(LinearArgs args) { linear<Float8Blocks>(args); }
__global__ void linear_mxfp4(LinearArgs args) { linear<Float4>(args); }
__global__ void linear_nvfp4(LinearArgs args) { linear<Float4Scaled>(args); }

}  // namespace pagoda::device::kernels
