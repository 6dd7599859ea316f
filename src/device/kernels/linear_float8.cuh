#pragma once
// Products of 8-bit floats by 8-bit floats (e4m3) by warpgroups (wgmma), for any number of rows: x is in
// codes with scales (float8_args.h), weights are Float8 or Float8Blocks. A block's warpgroups have 64 rows of
// x each as their left matrix, and tile.columns rows of the weights as the right one; further warps copy, as
// in bulk_stages.cuh.
//
// A step of these products keeps few bits (warpgroup_floats8.cuh), so a chain of them is at most kFloat8Scale
// of k long. Each chain begins at zero, and is added in f32 to the previous ones, ascending: either unscaled,
// with the finished sum multiplied by the scale of the row of the weights, then by that of the row of x; or
// multiplied by the product of both scales of the kFloat8Scale. So an element's bits depend only on its row
// of x and its row of the weights, in tiles of any size. grid: (1, clusters of blocks); block:
// float8_threads(); shared: float8_shared_bytes().
#include "device/kernels/float8_args.h"
#include "device/kernels/linear_narrow.cuh"
#include "device/kernels/warpgroup_floats8.cuh"

namespace pagoda::device::kernels {

template <ProductTile tile, class T>
struct Float8Sizes {
  static constexpr int kSlabs = tile.depth / kFloat8Scale, kEights = tile.columns / 8,
                       kRowBytes = tile.rows * kSlabRowBytes,
                       kSlabBytes = kRowBytes + tile.columns * kSlabRowBytes,  // x, then weights
      kFirstScale = kSlabs * kSlabBytes, kStageBytes = float8_stage_bytes(tile, kScalesOfBlocks<T>);
  static constexpr bool kUneven = kEights >= 16;  // sums need more registers than an equal share
  static_assert(tile.rows % 64 == 0 && tile.columns % 8 == 0 && tile.stages > 2 && tile.cluster > 1);
  static_assert(kSlabBytes % 1024 == 0 && kStageBytes % 1024 == 0);
};

// Scales of this thread's two rows of x, for a stage or for all of k. Missing rows use those of the last row.
template <int slabs>
struct RowScales {
  float at[slabs][2];
  __device__ __forceinline__ void load(const LinearArgs& args, int first_row, int first_block) {
    const auto* const scales = reinterpret_cast<const float*>(
        reinterpret_cast<const unsigned char*>(args.rounded) + float8_codes(args.rows, args.k));
    const int row = first_row + static_cast<int>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4);
#pragma unroll
    for (int slab = 0; slab < slabs; ++slab)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        at[slab][h] = scales[static_cast<std::int64_t>(first_block + slab) * args.rows +
                             (row + 8 * h < args.rows ? row + 8 * h : args.rows - 1)];
  }
};

// Adds a finished chain of kFloat8Scale of k.
template <class T, int eights>
__device__ __forceinline__ void add_chain(const float (&sums)[eights][4], const unsigned char* scales,
                                          int place, const float (&of_rows)[2], float (&totals)[eights][4]) {
#pragma unroll
  for (int n = 0; n < eights; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float scale = 1;
      if constexpr (kScalesOfBlocks<T>)
        scale = reinterpret_cast<const float*>(
            scales + 16 * (8 * n + 2 * static_cast<int>(threadIdx.x % 4) + i))[place];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float& total = totals[n][2 * h + i];
        total = kScalesOfBlocks<T> ? fmaf(sums[n][2 * h + i], scale * of_rows[h], total)
                                   : total + sums[n][2 * h + i];
      }
    }
}

template <ProductTile tile, class T>
__device__ __forceinline__ void multiply_float8(const LinearArgs& args, unsigned char* shared) {
  using Sizes = Float8Sizes<tile, T>;
  // A warp has 16 rows of x, and all columns.
  using Sums = ProductSums<Bf16, ProductTile{64, tile.columns, kSlab, 4, 1, tile.stages}>;
  constexpr int kSlabs = Sizes::kSlabs;
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  const int warp = static_cast<int>(threadIdx.x / 32), warpgroup = warp / 4;
  StageReader<tile, false, Sizes> reader(args, shared);
  for (BulkTiles<tile> tiles(args); tiles.is_there(); tiles.next()) {
    const int first_row = tiles.first_row(), first_n = tiles.first_column();
    Sums totals, sums[kSlabs];
    clear(totals);
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) clear(sums[slab]);
    RowScales<kSlabs> scales;
    if constexpr (kScalesOfBlocks<T>) scales.load(args, first_row, 0);
    for (int i = 0; i < stages; ++i) {
      const unsigned char* const stage = reader.next();
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) fence_products(sums[slab].at[0]);
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        const unsigned char *const x = stage + slab * Sizes::kSlabBytes + warpgroup * 64 * kSlabRowBytes,
                                   *const weights = stage + slab * Sizes::kSlabBytes + Sizes::kRowBytes;
        multiply_warpgroup_floats8<false>(sums[slab].at[0], x, weights, 0);
#pragma unroll
        for (int k = 32; k < kFloat8Scale; k += 32)
          multiply_warpgroup_floats8<true>(sums[slab].at[0], x, weights, k);
      }
      commit_products();
      RowScales<kSlabs> coming = scales;
      if constexpr (kScalesOfBlocks<T>)
        if (i + 1 < stages) coming.load(args, first_row, (i + 1) * kSlabs);
      wait_for_products<0>();
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) take_products(sums[slab].at[0]);
      if constexpr (!kScalesOfBlocks<T>) reader.free();
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        const int first_k = i * tile.depth + slab * kFloat8Scale;
        if (slab == 0 || first_k < args.k)
          add_chain<T>(sums[slab].at[0], stage + Sizes::kFirstScale, scale_place(first_k), scales.at[slab],
                       totals.at[0]);
      }
      if constexpr (kScalesOfBlocks<T>) {
        __syncwarp();  // all lanes have read the stage's scales
        reader.free();
        scales = coming;
      }
    }
    if constexpr (!kScalesOfBlocks<T>) {
      RowScales<1> of_rows;
      of_rows.load(args, first_row, 0);
      ColumnScales<Sizes::kEights> of_columns;
      load_row_scales<T>(args, first_n, of_columns);
#pragma unroll
      for (int n = 0; n < Sizes::kEights; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          totals.at[0][n][j] = totals.at[0][n][j] * of_columns.at[n][j % 2] * of_rows.at[0][j / 2];
    }
    const int rows = args.rows - first_row;
    const NarrowLines lines = {args, first_row, rows < tile.rows ? rows : tile.rows};
    if (has_pairs(args))
      store_sums<true>(args, lines, 16 * warp, first_n, totals);
    else
      store_sums<false>(args, lines, 16 * warp, first_n, totals);
  }
}

template <ProductTile tile, class T>
__device__ __forceinline__ void linear_float8(const LinearArgs& args) {
  begin_kernel();
  PAGODA_SWIZZLED_SHARED(unsigned char, shared);
  using Sizes = Float8Sizes<tile, T>;
  constexpr int kMultiplying = 2 * tile.rows;
  if (threadIdx.x == 0)
    Ring<tile.stages, Sizes::kStageBytes>(shared).make_barriers(false, tile.cluster * kMultiplying / 32);
  cluster_arrive();
  cluster_wait();  // the barriers of all blocks are initialised
  if (threadIdx.x < kMultiplying) {
    if constexpr (Sizes::kUneven) set_registers<kBulkRegisters<false>, true>();
    multiply_float8<tile, T>(args, shared);
  } else {
    if constexpr (Sizes::kUneven) set_registers<kBulkBringersRegisters<false>, false>();
    bring<tile, false, Sizes, T>(args, shared, static_cast<int>(threadIdx.x) - kMultiplying);
  }
  cluster_arrive();  // a block stays until the others have received its copies
  cluster_wait();
}

#if defined(__CUDA_ARCH__) && !defined(PAGODA_WARPGROUPS)
#define PAGODA_FLOAT8_KERNEL(name, columns, rows, T) \
  __global__ void linear_##name##_##columns##_##rows(LinearArgs) { begin_kernel(); }
#else
#define PAGODA_FLOAT8_KERNEL(name, columns, rows, T)                                      \
  __global__ void __launch_bounds__(float8_threads(float8_tile(columns, rows, false)), 1) \
      linear_##name##_##columns##_##rows(LinearArgs args) {                               \
    linear_float8<float8_tile(columns, rows, kScalesOfBlocks<T>), T>(args);               \
  }
#endif
#define PAGODA_FLOAT8_KERNELS(columns, rows)          \
  PAGODA_FLOAT8_KERNEL(float8, columns, rows, Float8) \
  PAGODA_FLOAT8_KERNEL(float8_blocks, columns, rows, Float8Blocks)
PAGODA_FLOAT8_KERNELS(32, 64)
PAGODA_FLOAT8_KERNELS(48, 64)
PAGODA_FLOAT8_KERNELS(64, 64)
PAGODA_FLOAT8_KERNELS(112, 64)
PAGODA_FLOAT8_KERNELS(128, 128)
PAGODA_FLOAT8_KERNELS(192, 128)
#undef PAGODA_FLOAT8_KERNELS
#undef PAGODA_FLOAT8_KERNEL

}  // namespace pagoda::device::kernels
