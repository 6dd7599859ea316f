#pragma once
// Adds low-rank adapters to products. grid.x: rows that have an adapter; grid.y: blocks that share a row.
// Order of sums: A x over k ascending in each lane of a warp, whose sums warp_sum() adds; B over the rank
// ascending. So a row's bits depend only on the row and its adapter.
#include "device/kernels/dialect.cuh"
#include "device/kernels/low_rank_args.h"

namespace pagoda::device::kernels {

template <class T>
__device__ __forceinline__ float low_rank_dot(const T* a, const float* x, int k) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x % 32); i < k; i += 32) sum = fmaf(to_float(a[i]), x[i], sum);
  return warp_sum(sum);
}

// `b`: an output's position in its strip.
template <class T>
__device__ __forceinline__ float low_rank_sum(const T* b, const float* u, int rank) {
  float sum = 0;
  for (int r = 0; r < rank; ++r) sum = fmaf(to_float(b[16 * r]), u[r], sum);
  return sum;
}

// One warp per rank.
__global__ void low_rank_dots(LowRankArgs args) {
  begin_kernel();
  const LowRankRow* const own = args.rows + blockIdx.x;
  const LowRankFactors* const factors = own->factors + args.slot;
  const int rank = static_cast<int>(blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32);
  if (rank >= factors->rank) return;
  const float* const x = args.x.data + own->row * args.x.stride;
  const std::int64_t first = static_cast<std::int64_t>(rank) * factors->width;
  const float sum = factors->bfloat16 != 0
                        ? low_rank_dot(reinterpret_cast<const Bf16*>(factors->right) + first, x, args.k)
                        : low_rank_dot(reinterpret_cast<const float*>(factors->right) + first, x, args.k);
  if (threadIdx.x % 32 == 0) args.u[static_cast<std::int64_t>(blockIdx.x) * args.most_ranks + rank] = sum;
}

// One thread per output, which belongs to at most one piece.
__global__ void low_rank_sums(LowRankArgs args) {
  begin_kernel();
  const LowRankRow* const own = args.rows + blockIdx.x;
  const LowRankFactors* const factors = own->factors + args.slot;
  const int output = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (factors->rank == 0 || output >= args.outputs) return;
  const float* const u = args.u + static_cast<std::int64_t>(blockIdx.x) * args.most_ranks;
  for (int i = 0; i < factors->num_pieces; ++i) {
    const LowRankPiece* const piece = factors->pieces + i;
    const int at = output - piece->first_output;
    if (at < 0 || at >= piece->outputs) continue;
    const std::int64_t place = static_cast<std::int64_t>(at / 16) * 16 * piece->rank + at % 16;
    const float sum = factors->bfloat16 != 0
                          ? low_rank_sum(reinterpret_cast<const Bf16*>(piece->left) + place,
                                         u + piece->first_rank, piece->rank)
                          : low_rank_sum(reinterpret_cast<const float*>(piece->left) + place,
                                         u + piece->first_rank, piece->rank);
    float* const y = args.y.data + own->row * args.y.stride + output;
    *y = fmaf(sum, piece->scale, *y);
    return;
  }
}

}  // namespace pagoda::device::kernels
