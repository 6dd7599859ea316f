#pragma once
// The sums that a warp of a product by tiles holds in registers (linear_tiles.cuh), and the scaling of sums
// of 8-bit and 4-bit floats.
#include "device/kernels/tile_copies.cuh"

namespace pagoda::device::kernels {

template <class T, ProductTile tile>
struct ProductSums {
  float at[ProductSizes<T, tile>::kM][ProductSizes<T, tile>::kN][4];
};

// Calls `each` for all m, n and i.
template <class T, ProductTile tile, class Each>
__device__ __forceinline__ void for_sums(const ProductSums<T, tile>&, const Each& each) {
  using Sizes = ProductSizes<T, tile>;
#pragma unroll
  for (int m = 0; m < Sizes::kM; ++m)
#pragma unroll
    for (int n = 0; n < Sizes::kN; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) each(m, n, i);
}

template <class T, ProductTile tile>
__device__ __forceinline__ void clear(ProductSums<T, tile>& sums) {
  for_sums(sums, [&](int m, int n, int i) { sums.at[m][n][i] = 0; });
}

// Scales of the columns of a warp that belong to this lane.
template <int count>
struct ColumnScales {
  float at[count][2];
};

// Adds finished sums of 8-bit floats to the totals and resets them; scale_rows() applies the scales of rows
// at the end.
template <class T, ProductTile tile>
__device__ __forceinline__ void end_block(ProductSums<T, tile>& sums,
                                          const ColumnScales<ProductSizes<T, tile>::kN>& scales,
                                          ProductSums<T, tile>& totals) {
  for_sums(sums, [&](int m, int n, int i) {
    float &sum = sums.at[m][n][i], &total = totals.at[m][n][i];
    total = kScalesOfBlocks<T> ? fmaf(sum, scales.at[n][i % 2], total) : total + sum;
    sum = 0;
  });
}
// Likewise if a lane's two rows of x also have scales.
template <class T, ProductTile tile>
__device__ __forceinline__ void end_block(ProductSums<T, tile>& sums,
                                          const ColumnScales<ProductSizes<T, tile>::kN>& scales,
                                          const float (&of_rows)[2], ProductSums<T, tile>& totals) {
  static_assert(kScalesOfBlocks<T> && ProductSizes<T, tile>::kM == 1);
  for_sums(sums, [&](int m, int n, int i) {
    float &sum = sums.at[m][n][i], &total = totals.at[m][n][i];
    total = fmaf(sum, scales.at[n][i % 2] * of_rows[i / 2], total);
    sum = 0;
  });
}
template <class T, ProductTile tile>
__device__ __forceinline__ void scale_rows(const ColumnScales<ProductSizes<T, tile>::kN>& scales,
                                           ProductSums<T, tile>& totals) {
  for_sums(totals, [&](int m, int n, int i) { totals.at[m][n][i] *= scales.at[n][i % 2]; });
}

// Loads the scales of rows, from row `first_n` of the weights on; and the scales of a stage, which begin at
// `from`.
template <class T, int count>
__device__ __forceinline__ void load_row_scales(const LinearArgs& args, int first_n,
                                                ColumnScales<count>& scales) {
  const int first = first_n + 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int n = 0; n < count; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first + 8 * n + i;
      scales.at[n][i] = row < args.n
                            ? row_scale(stored_row(static_cast<const T*>(args.weight), row, args.k), args.k)
                            : 0.0f;
    }
}
template <int count>
__device__ __forceinline__ void load_stage_scales(const unsigned char* from, int first_k,
                                                  ColumnScales<count>& scales) {
  const int first = 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int n = 0; n < count; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      scales.at[n][i] = reinterpret_cast<const float*>(from + 16 * (first + 8 * n + i))[scale_place(first_k)];
}

}  // namespace pagoda::device::kernels
