#pragma once
// Matrix product by tiles of bfloat16 products with sums in f32, sm_80 and up: weights of bfloat16, or
// quantised ones that are widened as they come into registers. A block has tile.rows rows of x, which are
// rounded to bfloat16 before the launch (args.rounded, in slabs), and tile.columns rows of the weights; it
// goes through k in stages, a ring of which is filled by asynchronous copies, and its warps share the block's
// part of y. Where the device has clusters, tile.cluster blocks of the same rows share the copies of x: each
// brings an equal part to all, so that the L2 is read once for all of them. Products of few rows are bound by
// the weights, and wait for nobody: linear_few.cuh.
//
// The sum of every element of y is one chain of products of 16x16x8, k ascending from zero, whatever the
// tile, the launch or the other rows are: so all forms give the same bits, and a row has them alone or in any
// batch. (A row of a product does not see the others: by the documented operation; kernel tests ask each
// device for it.) Beyond the end of k both matrices are zero, which changes no sum. grid: (tiles of rows,
// tiles of n, filled up to whole clusters): blocks that share weights run side by side. block: warps of the
// tile, and one more where blocks share; shared: product_shared_bytes().
#include "device/kernels/cluster_words.cuh"
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/tile_words.cuh"
#include "device/kernels/weight_fragments.cuh"

namespace pagoda::device::kernels {

template <class T, ProductTile tile>
struct ProductSizes {
  static constexpr int kThreads = 32 * tile.warps_of_rows * tile.warps_of_columns;
  static constexpr int kRows = tile.rows / tile.warps_of_rows;           // rows of a warp
  static constexpr int kColumns = tile.columns / tile.warps_of_columns;  // columns of a warp
  static constexpr int kM = kRows / 16, kN = kColumns / 8;
  // As registers allow beside the sums.
  static constexpr int kStepsAtOnce = kM * kN > 16 ? 1 : tile.depth / 32,
                       kCopiesAtOnce = kM * kN > 16 ? 2 : 16;
  // Pieces of 16 bytes in a row of weights.
  static constexpr int kPieces = product_pieces(tile, kGroupBytes<T>);
  static constexpr int kPitch = product_pitch(tile, kGroupBytes<T>);
  static constexpr int kStageBytes = product_stage_bytes(tile, kGroupBytes<T>);  // weights, then x
  static constexpr int kChunks = tile.depth / 8;  // chunks of 8 elements in a row of weights
  static constexpr int kSlabs = tile.depth / kSlab;
  static_assert(tile.depth % kSlab == 0);
};

// Starts the copies of the stage's weights. What lies behind the matrix's last row, or a row's end, is zero.
// Places within a block's part of a matrix are 32-bit numbers, which stay the same for all stages.
template <class T, ProductTile tile>
__device__ __forceinline__ void copy_weights(const LinearArgs& args, int first_k, unsigned char* stage) {
  using Sizes = ProductSizes<T, tile>;
  const int row_bytes = row_bytes_of<T>(args.k);
  const int first_n = static_cast<int>(blockIdx.y) * tile.columns;
  const int first_byte = first_byte_of<T>(first_k);
  const unsigned char* const from = static_cast<const unsigned char*>(args.weight) +
                                    static_cast<std::int64_t>(first_n) * row_bytes + first_byte;
  constexpr int kAll = tile.columns * Sizes::kPieces;
#pragma unroll Sizes::kCopiesAtOnce
  for (int j = 0; j < kAll; j += Sizes::kThreads) {
    const int i = j + static_cast<int>(threadIdx.x);
    if (kAll % Sizes::kThreads != 0 && i >= kAll) continue;
    const int line = i / Sizes::kPieces, piece = i % Sizes::kPieces;
    const bool there = first_n + line < args.n && first_byte + 16 * piece < row_bytes;
    const int to =
        kGroupBytes<T> == 64 ? swizzled(line, piece, Sizes::kPitch) : line * Sizes::kPitch + 16 * piece;
    copy_async(stage + to, from + (there ? line * row_bytes + 16 * piece : 0), there);
  }
}

// The same, stage after stage, of weights in bfloat16, whose pieces are swizzled and divide the block's
// threads. A thread has the same piece of every kStep-th line, so that it knows where it copies from and to.
template <int lines, int pieces, int threads>
struct LineCopies {
  static constexpr int kStep = threads / pieces, kCount = lines / kStep, kPitch = 16 * pieces;
  static_assert(threads % pieces == 0 && kStep % 8 == 0 && lines % kStep == 0);
  const unsigned char* from;
  std::int64_t step;
  int to, count, left;  // count: of this thread's lines that there are; left: of a line's bytes

  // `first`: of the block's lines, of which there are `there`; `thread`: of those that copy.
  __device__ __forceinline__ LineCopies(const void* first, int line_bytes, int there, int thread) {
    const int line = thread / pieces, piece = thread % pieces;
    from =
        static_cast<const unsigned char*>(first) + line * static_cast<std::int64_t>(line_bytes) + 16 * piece;
    step = kStep * static_cast<std::int64_t>(line_bytes);
    to = swizzled(line, piece, kPitch);
    count = there > line ? (there - line + kStep - 1) / kStep : 0;
    left = line_bytes - 16 * piece;
  }
  __device__ __forceinline__ void start(unsigned char* stage) {
#pragma unroll
    for (int j = 0; j < kCount; ++j)  // nothing is read where no line is there
      copy_async(stage + to + j * kStep * kPitch, from + j * step, j < count && left > 0);
    from += kPitch;
    left -= kPitch;
  }
};

// x's part of the stages, one after the other: slabs of the block's rows, which are brought as they lie in
// memory. By copies of each thread, or, where blocks share, by bulk copies of a thread in a warp that does
// nothing else, which arrive at the stage's barrier; lines without a row are left as they are, since no row
// of a product sees another.
template <ProductTile tile>
struct RowCopies {
  static constexpr int kThreads = product_threads(tile), kSlabs = tile.depth / kSlab,
                       kSlabBytes = tile.rows * kSlabRowBytes, kPieces = kSlabBytes / 16,
                       kShare = tile.rows / tile.cluster;  // rows that a block brings to all
  static_assert(kPieces % kThreads == 0 && tile.rows % tile.cluster == 0);
  // Blocks that share fill the place of the stage before the last one.
  static_assert(tile.cluster == 1 || tile.stages > 2);
  const unsigned char* from;
  int slab, there;  // bytes of a slab of all rows; the block's lines that are rows
  // Two for each place of the ring: at which x arrives, and where blocks say that it is free.
  std::uint64_t* barriers;

  __device__ __forceinline__ RowCopies(const LinearArgs& args, unsigned char* behind_stages)
      : barriers(reinterpret_cast<std::uint64_t*>(behind_stages)) {
    const int first = static_cast<int>(blockIdx.x) * tile.rows;
    from = reinterpret_cast<const unsigned char*>(args.rounded) +
           first * static_cast<std::int64_t>(kSlabRowBytes);
    slab = args.rows * kSlabRowBytes;
    there = args.rows - first < tile.rows ? args.rows - first : tile.rows;
  }
  static __device__ __forceinline__ bool shared() {
    if constexpr (tile.cluster == 1)
      return false;
    else
      return blocks_share();
  }
  __device__ __forceinline__ void start(unsigned char* stage) {
#pragma unroll
    for (int j = 0; j < kSlabs * kPieces; j += kThreads) {
      const int number = j / kPieces, piece = j % kPieces + static_cast<int>(threadIdx.x);
      copy_async(stage + number * kSlabBytes + 16 * piece,
                 from + number * static_cast<std::int64_t>(slab) + 16 * piece,
                 piece < there * (kSlabRowBytes / 16));
    }
    from += kSlabs * static_cast<std::int64_t>(slab);
  }
  __device__ __forceinline__ void make_barriers() {
    for (int i = 0; i < tile.stages; ++i) {
      make_arrivals(barriers + i, 1);
      make_arrivals(barriers + tile.stages + i, tile.cluster);
    }
  }
  __device__ __forceinline__ void wait(int place, unsigned parity) const {
    wait_for_arrivals(barriers + place, parity);
  }
  // These and make_barriers() by one thread, to which __syncthreads() has said that nobody in the block reads
  // this place any more: all blocks hear of it; and where all have said so, this block's part of a stage goes
  // there.
  __device__ __forceinline__ void free(int place) const {
#pragma unroll
    for (unsigned rank = 0; rank < tile.cluster; ++rank) arrive_at(barriers + tile.stages + place, rank);
  }
  __device__ __forceinline__ void wait_until_free(int place, unsigned parity) const {
    wait_for_arrivals(barriers + tile.stages + place, parity);
  }
  __device__ __forceinline__ void share(unsigned char* stage, int place) {
    expect_arrivals(barriers + place, static_cast<unsigned>(kSlabs * there * kSlabRowBytes));
    const int first = static_cast<int>(rank_in_cluster()) * kShare,
              lines = there - first < kShare ? there - first : kShare;
    if (lines > 0)
#pragma unroll
      for (int number = 0; number < kSlabs; ++number)
        copy_to_cluster(stage + number * kSlabBytes + first * kSlabRowBytes,
                        from + number * static_cast<std::int64_t>(slab) + first * kSlabRowBytes,
                        static_cast<unsigned>(lines * kSlabRowBytes), barriers + place,
                        (1u << tile.cluster) - 1);
    from += kSlabs * static_cast<std::int64_t>(slab);
  }
};

// Which rows of x and y the lines of a block's tile are: the next ones of a batch.
template <ProductTile tile>
struct BatchLines {
  static constexpr bool kWeighed = false;
  const LinearArgs& args;
  int first;
  __device__ __forceinline__ explicit BatchLines(const LinearArgs& args)
      : args(args), first(static_cast<int>(blockIdx.x) * tile.rows) {}
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

template <class T, ProductTile tile>
struct ProductSums {
  float at[ProductSizes<T, tile>::kM][ProductSizes<T, tile>::kN][4];
};

// Adds the stage that begins at `first_k` to the warp's sums, k ascending.
template <class T, ProductTile tile>
__device__ __forceinline__ void multiply_stage(int first_k, const unsigned char* weights,
                                               const unsigned char* rows, ProductSums<T, tile>& sums) {
  using Sizes = ProductSizes<T, tile>;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = warp / tile.warps_of_columns * Sizes::kRows,
            first_column = warp % tile.warps_of_columns * Sizes::kColumns;
  const int shift = shift_of<T>(first_k);
  const auto load_left = [&](int k, std::uint32_t(&left)[Sizes::kM][2][4]) {
#pragma unroll
    for (int m = 0; m < Sizes::kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        load_matrices<false>(
            reinterpret_cast<const Bf16*>(rows + k / kSlab * (tile.rows * kSlabRowBytes) +
                                          swizzled(first_row + 16 * m + lane % 16,
                                                   k % kSlab / 8 + 2 * half + lane / 16, kSlabRowBytes)),
            left[m][half]);
  };
  const auto load_right = [&](int k, int n, std::uint32_t(&right)[4]) {
    load_weights(weights + (first_column + 8 * n) * Sizes::kPitch, Sizes::kPitch,
                 static_cast<const T*>(nullptr), k, shift, right);
  };
  const auto multiply = [&](int n, const std::uint32_t(&left)[Sizes::kM][2][4],
                            const std::uint32_t(&right)[4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int m = 0; m < Sizes::kM; ++m)
        multiply_matrices(sums.at[m][n], left[m][half], {right[2 * half], right[2 * half + 1]});
  };
#pragma unroll Sizes::kStepsAtOnce
  for (int k = 0; k < tile.depth; k += 32) {
    std::uint32_t left[Sizes::kM][2][4];
    load_left(k, left);
#pragma unroll
    for (int n = 0; n < Sizes::kN; ++n) {
      std::uint32_t right[4];
      load_right(k, n, right);
      multiply(n, left, right);
    }
  }
}

// Whether rows of y begin at multiples of two elements.
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
__device__ __forceinline__ void clear(ProductSums<T, tile>& sums) {
  using Sizes = ProductSizes<T, tile>;
#pragma unroll
  for (int m = 0; m < Sizes::kM; ++m)
#pragma unroll
    for (int n = 0; n < Sizes::kN; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums.at[m][n][i] = 0;
}

template <class T, ProductTile tile>
__device__ __forceinline__ void linear_tiles(const LinearArgs& args) {
  using Sizes = ProductSizes<T, tile>;
  PAGODA_SHARED(unsigned char, shared);
  constexpr int kWeightBytes = tile.columns * Sizes::kPitch;
  const BatchLines<tile> lines(args);
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
  LineCopies<tile.columns, Sizes::kChunks, Sizes::kThreads> weight_copies(
      static_cast<const unsigned char*>(args.weight) +
          (kPlain ? static_cast<std::int64_t>(first_column) * 2 * args.k : 0),
      2 * args.k, args.n - first_column, static_cast<int>(threadIdx.x));
  const auto copy = [&](int number, int place) {
    if (number < stages && multiplies) {
      unsigned char* const stage = shared + place * Sizes::kStageBytes;
      if constexpr (kPlain)
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
  if (shares) cluster_wait();  // the barriers of all are there
  for (int i = 0; brings && i < tile.stages - 2; ++i) share(i, i);
  ProductSums<T, tile> sums;
  clear(sums);
  int place = 0;
  unsigned parity = 0;
  for (int i = 0; i < stages; ++i) {
    copies_wait<tile.stages - 2>();
    if (shares) row_copies.wait(place, parity);
    __syncthreads();  // the copies of all threads are there, and the stage before is free
    const int before = place == 0 ? tile.stages - 1 : place - 1;
    copy(i + tile.stages - 1, before);
    if (brings) {
      // Nobody hears of a place that is not filled again: its block may have ended. The place that is filled
      // is that of the stage before the last one, so that blocks which are no more than a stage apart wait
      // for nobody.
      if (i > 0 && i - 1 + tile.stages < stages) row_copies.free(before);
      const int freed = before == 0 ? tile.stages - 1 : before - 1;
      if (i > 1 && i - 2 + tile.stages < stages)
        row_copies.wait_until_free(freed, place < 2 ? parity ^ 1 : parity);
      share(i - 2 + tile.stages, freed);
    }
    const unsigned char* const weights = shared + place * Sizes::kStageBytes;
    if (has_work) multiply_stage<T, tile>(i * tile.depth, weights, weights + kWeightBytes, sums);
    place = place + 1 == tile.stages ? 0 : place + 1;
    if (place == 0) parity ^= 1;
  }
  if (shares) {  // a block stays until all have what it brought
    cluster_arrive();
    cluster_wait();
  }
  if (!has_work) return;
  if (has_pairs(args))
    store_sums<true>(args, lines, first_line, first_n, sums);
  else
    store_sums<false>(args, lines, first_line, first_n, sums);
}

#define PAGODA_PRODUCT_KERNEL(name, T, tile, blocks)                                             \
  __global__ void __launch_bounds__(product_threads(tile) + (tile.cluster > 1 ? 32 : 0), blocks) \
      linear_##name(LinearArgs args) {                                                           \
    linear_tiles<T, tile>(args);                                                                 \
  }
#define PAGODA_PRODUCT_KERNELS(name, T)                     \
  PAGODA_PRODUCT_KERNEL(several_##name, T, kSeveralRows, 2) \
  PAGODA_PRODUCT_KERNEL(some_##name, T, kSomeRows, 2)       \
  PAGODA_PRODUCT_KERNEL(wide_##name, T, kWideRows, 2)       \
  PAGODA_PRODUCT_KERNEL(many_##name, T, kManyRows, 2)
PAGODA_PRODUCT_KERNELS(bf16, Bf16)
PAGODA_PRODUCT_KERNELS(q4, Quantized4)
PAGODA_PRODUCT_KERNELS(q8, Quantized8)
PAGODA_PRODUCT_KERNELS(q4_k, Quantized4K)
PAGODA_PRODUCT_KERNELS(q6_k, Quantized6K)
#undef PAGODA_PRODUCT_KERNELS
#undef PAGODA_PRODUCT_KERNEL

}  // namespace pagoda::device::kernels
