#pragma once
// Matrix product by tiles of bfloat16 products with sums in f32, sm_80 and up: weights are in bfloat16, or
// quantised and widened when they are loaded into registers. A block has tile.rows rows of x, which are
// rounded to bfloat16 before the launch (args.rounded, in slabs), and tile.columns rows of the weights. It
// goes through k in stages, in a ring that is filled by asynchronous copies, and its warps share the block's
// part of y. If the device has clusters, tile.cluster blocks with the same rows share the copies of x: each
// copies an equal part to all, so that the L2 is read once for all of them. Products of few rows are bound by
// reading the weights, and their warps do not wait for each other: linear_few.cuh.
//
// The sum of every element of y is one chain of products of 16x16x8, k ascending from zero, independent of
// the tile, the launch and the other rows. So all forms give the same bits, and a row has them alone or in
// any batch. (The rows of a product are independent by the documented operation; kernel tests check it on
// each device.) Beyond the end of k both matrices are zero, which changes no sum. Codes of 8-bit floats are
// exact in bfloat16: each kFloat8Scale of k has its own chain, which is multiplied by its scale and added to
// the previous ones; or the total is multiplied by the row's scale at the end, as are sums of 4-bit floats
// with scales. grid: (tiles of rows, tiles of n, padded to whole clusters): blocks that share weights run
// side by side. block: warps of the tile, and one more if blocks share; shared: product_shared_bytes().
#include <type_traits>

#include "device/kernels/product_sums.cuh"
#include "device/kernels/tile_copies.cuh"

namespace pagoda::device::kernels {

// The rows of x and y for the lines of a block's tile: consecutive rows of a batch.
template <int most>
struct BatchLines {
  static constexpr bool kWeighed = false, kScaled = false;
  static constexpr int kMost = most;
  const LinearArgs& args;
  int first;
  __device__ __forceinline__ explicit BatchLines(const LinearArgs& args)
      : args(args), first(static_cast<int>(blockIdx.x) * most) {}
  __device__ __forceinline__ int count() const { return args.rows - first; }
  __device__ __forceinline__ const float* x(int line) const {
    return args.x + static_cast<std::int64_t>(first + line) * args.k;
  }
  __device__ __forceinline__ float* y(int line) const {
    return args.y + static_cast<std::int64_t>(first + line) * args.stride;
  }
  __device__ __forceinline__ const std::uint16_t* rounded(int line) const {
    return args.rounded + static_cast<std::int64_t>(first + line) * args.k;
  }
  __device__ __forceinline__ float factor(int) const { return 1; }
};

// This lane's rows of x in a slab of a stage, by steps of 16 of k: their places are computed once if
// registers allow.
template <class T, ProductTile tile>
struct LeftPlaces {
  static constexpr bool kOnce = ProductSizes<T, tile>::kStepsAtOnce > 1;
  int row, at[kOnce ? kSlab / 16 : 1];
  __device__ __forceinline__ LeftPlaces() {
    row = static_cast<int>(threadIdx.x / 32) / tile.warps_of_columns * ProductSizes<T, tile>::kRows +
          static_cast<int>(threadIdx.x % 16);
    if constexpr (kOnce)
#pragma unroll
      for (int i = 0; i < kSlab / 16; ++i) at[i] = place(i);
  }
  __device__ __forceinline__ int place(int i) const {
    return swizzled(row, 2 * i + static_cast<int>(threadIdx.x % 32 / 16), kSlabRowBytes);
  }
  // Loads step `k` / 16 of the 16 rows from 16 * `m` on.
  __device__ __forceinline__ void load(const unsigned char* rows, int k, int m,
                                       std::uint32_t (&left)[4]) const {
    int first = 0;
    if constexpr (kOnce)
      first = at[k % kSlab / 16];
    else
      first = place(k % kSlab / 16);
    load_matrices<false>(reinterpret_cast<const Bf16*>(
                             rows + first + k / kSlab * (tile.rows * kSlabRowBytes) + 16 * m * kSlabRowBytes),
                         left);
  }
};

// Adds the stage that begins at `first_k` to the warp's sums, k ascending.
template <class T, ProductTile tile>
__device__ __forceinline__ void multiply_stage(int first_k, const unsigned char* weights,
                                               const unsigned char* rows, const LeftPlaces<T, tile>& places,
                                               ProductSums<T, tile>& sums) {
  using Sizes = ProductSizes<T, tile>;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const unsigned char* const lines = weights + warp % tile.warps_of_columns * Sizes::kColumns * Sizes::kPitch;
  const auto multiply = [&](int n, const std::uint32_t(&left)[Sizes::kM][2][4],
                            const std::uint32_t(&right)[4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int m = 0; m < Sizes::kM; ++m)
        multiply_matrices(sums.at[m][n], left[m][half], {right[2 * half], right[2 * half + 1]});
  };
  const auto load_left = [&](int k, std::uint32_t(&left)[Sizes::kM][2][4]) {
#pragma unroll
    for (int m = 0; m < Sizes::kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) places.load(rows, k + 16 * half, m, left[m][half]);
  };
  if constexpr (Sizes::kStoredAtOnce) {
    StoredStage<T> stored[Sizes::kN];
#pragma unroll
    for (int n = 0; n < Sizes::kN; ++n)
      load_stage(stored[n], lines + 8 * n * Sizes::kPitch, Sizes::kPitch, shift_of<T>(first_k));
#pragma unroll
    for (int k = 0; k < tile.depth; k += 32) {
      std::uint32_t left[Sizes::kM][2][4];
      load_left(k, left);
#pragma unroll
      for (int n = 0; n < Sizes::kN; ++n) {
        std::uint32_t right[4];
        stored[n].fragment(k / 32, right);
        multiply(n, left, right);
      }
    }
  } else {
    const int shift = shift_of<T>(first_k);
#pragma unroll Sizes::kStepsAtOnce
    for (int k = 0; k < tile.depth; k += 32) {
      std::uint32_t left[Sizes::kM][2][4];
      load_left(k, left);
#pragma unroll
      for (int n = 0; n < Sizes::kN; ++n) {
        std::uint32_t right[4];
        load_weights(lines + 8 * n * Sizes::kPitch, Sizes::kPitch, static_cast<const T*>(nullptr), k, shift,
                     right);
        multiply(n, left, right);
      }
    }
  }
}

// True if rows of y begin at multiples of two elements.
__device__ __forceinline__ bool has_pairs(const LinearArgs& args) {
  return (args.n | args.stride) % 2 == 0 && reinterpret_cast<std::uintptr_t>(args.y) % sizeof(TwoFloats) == 0;
}

// `pairs`: has_pairs().
template <bool pairs, class T, ProductTile tile, class Lines>
__device__ __forceinline__ void store_sums(const LinearArgs& args, const Lines& lines, int first_line,
                                           int first_n, const ProductSums<T, tile>& sums) {
  using Sizes = ProductSizes<T, tile>;
  const int lane = static_cast<int>(threadIdx.x % 32), first = first_n + 2 * (lane % 4);
  float bias[Sizes::kN][2] = {};
  if (args.bias != nullptr)
#pragma unroll
    for (int n = 0; n < Sizes::kN; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (first + 8 * n + i < args.n) bias[n][i] = args.bias[first + 8 * n + i];
#pragma unroll
  for (int m = 0; m < Sizes::kM; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int line = first_line + 16 * m + 8 * h + lane / 4;
      if (line >= lines.count()) continue;
      float* const y = lines.y(line) + first;
#pragma unroll
      for (int n = 0; n < Sizes::kN; ++n) {
        if (first + 8 * n >= args.n) continue;
        TwoFloats two;
#pragma unroll
        for (int i = 0; i < 2; ++i) two.at[i] = sums.at[m][n][2 * h + i] + bias[n][i];
        if constexpr (pairs) {
          if (args.accumulate != 0) {
            const auto before = load_whole<TwoFloats>(y + 8 * n);
            for (int i = 0; i < 2; ++i) two.at[i] = before.at[i] + two.at[i];
          }
          store_whole(y + 8 * n, two);
        } else {
          for (int i = 0; i < 2; ++i)
            if (first + 8 * n + i < args.n)
              y[8 * n + i] = args.accumulate != 0 ? y[8 * n + i] + two.at[i] : two.at[i];
        }
      }
    }
}

template <class T, ProductTile tile>
__device__ __forceinline__ void linear_tiles(const LinearArgs& args) {
  begin_kernel();
  using Sizes = ProductSizes<T, tile>;
  PAGODA_SHARED(unsigned char, shared);
  constexpr int kWeightBytes = Sizes::kWeightBytes;
  const BatchLines<tile.rows> lines(args);
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int first_line = warp / tile.warps_of_columns * Sizes::kRows,
            first_n =
                static_cast<int>(blockIdx.y) * tile.columns + warp % tile.warps_of_columns * Sizes::kColumns;
  const bool multiplies = threadIdx.x < Sizes::kThreads,
             has_work = multiplies && first_line < lines.count() && first_n < args.n;
  constexpr bool kPlain = kGroupBytes<T> == kGroupBytes<Bf16>;
  RowCopies<tile> row_copies(args, shared + tile.stages * Sizes::kStageBytes);
  const bool shares = row_copies.shared(), brings = shares && threadIdx.x == Sizes::kThreads;
  const int first_column = static_cast<int>(blockIdx.y) * tile.columns;
  constexpr bool kPieces = !kPlain && !kFloats8<T> && !kFloats4<T> && tile.depth % kQuantizedUnit == 0;
  using Copies =
      std::conditional_t<kPieces, PieceCopies<T, tile.columns, tile.depth, Sizes::kPitch, Sizes::kThreads>,
                         LineCopies<tile.columns, Sizes::kChunks, Sizes::kThreads>>;
  const bool any = first_column < args.n;
  Copies weight_copies(static_cast<const unsigned char*>(args.weight) +
                           (any ? static_cast<std::int64_t>(first_column) * row_bytes_of<T>(args.k) : 0),
                       row_bytes_of<T>(args.k), any ? args.n - first_column : 0,
                       static_cast<int>(threadIdx.x));
  const auto copy = [&](int number, int place) {
    if (number < stages && multiplies) {
      unsigned char* const stage = shared + place * Sizes::kStageBytes;
      if constexpr (kPlain || kPieces)
        weight_copies.start(stage);
      else
        copy_weights<T, tile>(args, number * tile.depth, stage);
      if (!shares) row_copies.start(stage + kWeightBytes);
    }
    copies_commit();
  };
  const auto share = [&](int number, int place) {
    if (number < stages) row_copies.share(shared + place * Sizes::kStageBytes + kWeightBytes, place);
  };
  if (brings) row_copies.make_barriers();
  if (shares) cluster_arrive();
  for (int i = 0; i < tile.stages - 1; ++i) copy(i, i);
  if (shares) cluster_wait();  // the barriers of all blocks are initialised
  for (int i = 0; brings && i < tile.stages - 2; ++i) share(i, i);
  const LeftPlaces<T, tile> places;
  ProductSums<T, tile> sums, totals;  // totals: for 8-bit floats only
  clear(sums);
  clear(totals);
  ColumnScales<Sizes::kN> scales;
  if constexpr (kScalesOfRows<T>)
    if (has_work) load_row_scales<T>(args, first_n, scales);
  int place = 0;
  unsigned parity = 0;
  for (int i = 0; i < stages; ++i) {
    copies_wait<tile.stages - 2>();
    if (shares) row_copies.wait(place, parity);
    __syncthreads();  // the copies of all threads have arrived, and the previous stage is free
    const int before = place == 0 ? tile.stages - 1 : place - 1;
    copy(i + tile.stages - 1, before);
    if (brings) {
      // A place that will not be filled again is not signalled: its block may have ended. The place that is
      // filled is that of the stage before the previous one, so that blocks at most one stage apart do not
      // wait.
      if (i > 0 && i - 1 + tile.stages < stages) row_copies.free(before);
      const int freed = before == 0 ? tile.stages - 1 : before - 1;
      if (i > 1 && i - 2 + tile.stages < stages)
        row_copies.wait_until_free(freed, place < 2 ? parity ^ 1 : parity);
      share(i - 2 + tile.stages, freed);
    }
    const unsigned char* const weights = shared + place * Sizes::kStageBytes;
    if (has_work) multiply_stage<T, tile>(i * tile.depth, weights, weights + kWeightBytes, places, sums);
    if constexpr (kFloats8<T>)
      if (has_work && ((i + 1) * tile.depth % kFloat8Scale == 0 || i + 1 == stages)) {
        if constexpr (kScalesOfBlocks<T>)
          load_stage_scales(
              weights + Sizes::kFirstScale + 16 * (warp % tile.warps_of_columns * Sizes::kColumns),
              i * tile.depth, scales);
        end_block(sums, scales, totals);
      }
    place = place + 1 == tile.stages ? 0 : place + 1;
    if (place == 0) parity ^= 1;
  }
  if (shares) {  // a block stays until the others have received its copies
    cluster_arrive();
    cluster_wait();
  }
  if (!has_work) return;
  ProductSums<T, tile>& all = kFloats8<T> ? totals : sums;
  if constexpr (kScalesOfRows<T>) scale_rows(scales, all);
  if (has_pairs(args))
    store_sums<true>(args, lines, first_line, first_n, all);
  else
    store_sums<false>(args, lines, first_line, first_n, all);
}

#define PAGODA_PRODUCT_KERNEL(name, T, tile, blocks)                                             \
  __global__ void __launch_bounds__(product_threads(tile) + (tile.cluster > 1 ? 32 : 0), blocks) \
      linear_##name(LinearArgs args) {                                                           \
    linear_tiles<T, tile>(args);                                                                 \
  }
#define PAGODA_PRODUCT_KERNELS(name, T)                     \
  PAGODA_PRODUCT_KERNEL(several_##name, T, kSeveralRows, 2) \
  PAGODA_PRODUCT_KERNEL(some_##name, T, kSomeRows, 2)       \
  PAGODA_PRODUCT_KERNEL(wide_##name, T, kWideRows, 2)
PAGODA_PRODUCT_KERNELS(bf16, Bf16)
PAGODA_PRODUCT_KERNELS(q4, Quantized4)
PAGODA_PRODUCT_KERNELS(q8, Quantized8)
PAGODA_PRODUCT_KERNELS(q4_k, Quantized4K)
PAGODA_PRODUCT_KERNELS(q5_k, Quantized5K)
PAGODA_PRODUCT_KERNELS(q6_k, Quantized6K)
PAGODA_PRODUCT_KERNELS(fp8, Float8)
PAGODA_PRODUCT_KERNELS(fp8_blocks, Float8Blocks)
PAGODA_PRODUCT_KERNELS(mxfp4, Float4)
PAGODA_PRODUCT_KERNELS(nvfp4, Float4Scaled)
PAGODA_PRODUCT_KERNEL(many_bf16, Bf16, kManyRows, 2)
PAGODA_PRODUCT_KERNEL(many_q4, Quantized4, kManyRows, 2)
PAGODA_PRODUCT_KERNEL(many_q8, Quantized8, kManyRows, 2)
PAGODA_PRODUCT_KERNEL(many_q4_k, Quantized4K, kManyRows, 2)
PAGODA_PRODUCT_KERNEL(many_q5_k, Quantized5K, kManyRows, 2)
PAGODA_PRODUCT_KERNEL(many_q6_k, Quantized6K, kManyRows, 2)
// The registers do not hold the sums and totals of this many elements: there is no many_fp8, and no form for
// 4-bit floats.
#undef PAGODA_PRODUCT_KERNELS
#undef PAGODA_PRODUCT_KERNEL

}  // namespace pagoda::device::kernels
