#pragma once
// Products of 5 to a few hundred rows by warpgroups (wgmma), with weights in bfloat16, for matrices with few
// rows per processor: linear_bulk.cuh with the roles of the matrices exchanged. A block has tile.rows rows of
// x, 32, 64 or 128, as the left matrix, and tile.columns rows of the weights, any multiple of 8, as the right
// one: as many as give all processors about equal shares. The speed of reading the weights matters most: the
// ring holds as many of their stages as fit into shared memory. One warpgroup per 64 rows multiplies; the
// last one copies, as in linear_bulk.cuh. With 32 rows, the remaining lines of the left matrix are the
// weights that follow them, whose products are not stored.
//
// The sum of every element of y is the chain of linear_tiles.cuh, with the same bits, which is tested on each
// device. grid: (1, clusters of blocks); block: narrow_threads(); shared: product_shared_bytes().
#include "device/kernels/bulk_stages.cuh"

namespace pagoda::device::kernels {

template <ProductTile tile>
struct NarrowSizes {
  static constexpr int kSlabs = tile.depth / kSlab, kEights = tile.columns / 8,
                       kRowBytes = tile.rows * kSlabRowBytes,
                       kSlabBytes = kRowBytes + tile.columns * kSlabRowBytes,  // x, then weights
      kStageBytes = kSlabs * kSlabBytes, kMultiplying = narrow_threads(tile.rows) - kBulkBringers;
  static_assert(tile.rows + tile.columns >= 64 && (tile.rows == 32 || tile.rows % 64 == 0) &&
                tile.columns % 8 == 0);
  static_assert(tile.stages > 2 && tile.cluster > 1);
  static_assert(kRowBytes % 1024 == 0 &&
                kSlabBytes % 1024 == 0);  // matrices begin where they are swizzled from
};
// The lines of a tile that are rows of y.
struct NarrowLines {
  const LinearArgs& args;
  int first, there;
  __device__ __forceinline__ int count() const { return there; }
  __device__ __forceinline__ float* y(int line) const {
    return args.y + static_cast<std::int64_t>(first + line) * args.stride;
  }
};

template <ProductTile tile>
__device__ __forceinline__ void multiply_narrow(const LinearArgs& args, unsigned char* shared) {
  using Sizes = NarrowSizes<tile>;
  // A warp has 16 of the left matrix's lines, and all columns.
  using Sums = ProductSums<Bf16, ProductTile{64, tile.columns, tile.depth, 4, 1, tile.stages}>;
  const int warp = static_cast<int>(threadIdx.x / 32), first_line = warp / 4 * 64;
  multiply_and_store<tile, false, Sizes, Sums>(
      args, shared,
      [&](const unsigned char* stage, auto& sums) {
#pragma unroll
        for (int number = 0; number < Sizes::kSlabs; ++number) {
          const unsigned char *const slab = stage + number * Sizes::kSlabBytes,
                                     *const x = slab + first_line * kSlabRowBytes,
                                     *const weights = slab + Sizes::kRowBytes;
#pragma unroll
          for (int k = 0; k < kSlabRowBytes; k += 32) multiply_warpgroup(sums, x + k, weights + k);
        }
      },
      [&](const auto& tiles, const Sums& all) {
        const int first = tiles.first_row(), rows = args.rows - first;
        const NarrowLines lines = {args, first, rows < tile.rows ? rows : tile.rows};
        if (has_pairs(args))
          store_sums<true>(args, lines, 16 * warp, tiles.first_column(), all);
        else
          store_sums<false>(args, lines, 16 * warp, tiles.first_column(), all);
      });
}

template <ProductTile tile>
__device__ __forceinline__ void linear_narrow(const LinearArgs& args) {
  begin_kernel();
  PAGODA_SWIZZLED_SHARED(unsigned char, shared);
  if (threadIdx.x == 0)
    Ring<tile.stages, NarrowSizes<tile>::kStageBytes>(shared).make_barriers(
        false, tile.cluster * NarrowSizes<tile>::kMultiplying / 32);
  cluster_arrive();
  cluster_wait();  // the barriers of all blocks are initialised
  constexpr int kMultiplying = NarrowSizes<tile>::kMultiplying;
  if (threadIdx.x < kMultiplying)
    multiply_narrow<tile>(args, shared);
  else
    bring<tile, false, NarrowSizes<tile>>(args, shared, static_cast<int>(threadIdx.x) - kMultiplying);
  cluster_arrive();  // a block stays until the others have received its copies
  cluster_wait();
}

#if defined(__CUDA_ARCH__) && !defined(PAGODA_WARPGROUPS)
#define PAGODA_NARROW_KERNEL(columns, rows) \
  __global__ void linear_narrow_##columns##_##rows##_bf16(LinearArgs) { begin_kernel(); }
#else
#define PAGODA_NARROW_KERNEL(columns, rows)                      \
  __global__ void __launch_bounds__(narrow_threads(rows), 1)     \
      linear_narrow_##columns##_##rows##_bf16(LinearArgs args) { \
    linear_narrow<narrow_tile(columns, rows)>(args);             \
  }
#endif
#define PAGODA_NARROW_KERNELS(columns) PAGODA_NARROW_KERNEL(columns, 32) PAGODA_NARROW_KERNEL(columns, 64)
PAGODA_NARROW_KERNELS(32)
PAGODA_NARROW_KERNELS(48)
PAGODA_NARROW_KERNELS(64)
PAGODA_NARROW_KERNELS(112)
PAGODA_NARROW_KERNEL(64, 128)
PAGODA_NARROW_KERNEL(112, 128)
#undef PAGODA_NARROW_KERNELS
#undef PAGODA_NARROW_KERNEL

}  // namespace pagoda::device::kernels
