#pragma once
// The copies of stages into shared memory by a block of products by tiles (linear_tiles.cuh): rows of the
// weights, of every type, and its rows of x.
#include <type_traits>

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
  // As many as registers allow beside the sums.
  static constexpr int kStepsAtOnce = kM * kN > 16 ? 1 : tile.depth / 32,
                       kCopiesAtOnce = kM * kN > 16 ? 2 : 16;
  static constexpr bool kStoredAtOnce = kM * kN <= 4 && tile.depth == kQuantizedUnit && !kFloats8<T>;
  // Pieces of 16 bytes in a row of weights.
  static constexpr int kPieces = product_pieces(tile, kGroupBytes<T>);
  static constexpr int kPitch = product_pitch(tile, kGroupBytes<T>);
  static constexpr int kStageBytes = product_stage_bytes(tile, kGroupBytes<T>);  // weights, scales, then x
  static constexpr int kWeightBytes = product_weight_bytes(tile, kGroupBytes<T>),
                       kFirstScale = tile.columns * kPitch;
  static constexpr int kChunks = tile.depth / 8;  // chunks of 8 elements in a row of weights
  static constexpr int kSlabs = tile.depth / kSlab;
  static_assert(tile.depth % kSlab == 0);
};

// Starts the copies of the stage's weights. Beyond the matrix's last row and a row's end, they are zero.
// Places within a block's part of a matrix are 32-bit numbers, the same for all stages.
template <class T, ProductTile tile>
__device__ __forceinline__ void copy_weights(const LinearArgs& args, int first_k, unsigned char* stage) {
  using Sizes = ProductSizes<T, tile>;
  const int row_bytes = row_bytes_of<T>(args.k), code_bytes = code_bytes_of<T>(args.k);
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
    const bool powers = kFloats4<T> && piece + 1 == Sizes::kPieces;
    const int at = powers ? code_bytes - first_byte + power_piece<T>(first_k) : 16 * piece;
    const bool there = first_n + line < args.n && (powers || first_byte + 16 * piece < code_bytes);
    copy_async(stage + place_of<T>(line, piece, Sizes::kPitch), from + (there ? line * row_bytes + at : 0),
               there);
  }
  if constexpr (kScalesOfBlocks<T>) {
    const int first_scale = args.k - first_byte + scale_piece(first_k);
    for (int line = static_cast<int>(threadIdx.x); line < tile.columns; line += Sizes::kThreads) {
      const bool there = first_n + line < args.n;
      copy_async(stage + Sizes::kFirstScale + 16 * line, from + (there ? line * row_bytes + first_scale : 0),
                 there);
    }
  }
}

// Likewise, stage after stage, for weights in bfloat16, whose pieces are swizzled and divide the block's
// threads. A thread has the same piece of every kStep-th line, so that its addresses are known.
template <int lines, int pieces, int threads>
struct LineCopies {
  static constexpr int kStep = threads / pieces, kCount = lines / kStep, kPitch = 16 * pieces;
  static_assert(threads % pieces == 0 && kStep % 8 == 0 && lines % kStep == 0);
  const unsigned char* from;
  std::int64_t step;
  int to, count, left;  // count: existing lines of this thread; left: remaining bytes of a line

  // `first`: the first of the block's lines; `there`: number of existing lines; `thread`: number among the
  // copying threads.
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
    for (int j = 0; j < kCount; ++j)  // nothing is read for lines that do not exist
      copy_async(stage + to + j * kStep * kPitch, from + j * step, j < count && left > 0);
    from += kPitch;
    left -= kPitch;
  }
};

// Likewise for quantised weights, in stages of 128 of k or multiples, which begin with a piece. If rows are
// whole stages, missing rows are copies of the first: their sums are not stored.
template <class T, int lines, int depth, int pitch, int threads>
struct PieceCopies {
  static constexpr bool kWhole = kGroupBytes<T> != kGroupBytes<Quantized4>;  // supports_product_tiles()
  static constexpr int kStep = depth / kQuantizedGroup * kBytesOfGroup<T>;   // bytes of a row in a stage
  static constexpr int kPieces = kStep / 16, kAll = lines * kPieces, kCount = (kAll + threads - 1) / threads;
  static_assert(depth % kQuantizedUnit == 0 && kStep % 16 == 0);
  const unsigned char* from[kCount];
  int to[kCount], left[kCount];  // left: remaining bytes of a row
  bool mine;                     // true if there is a last piece for this thread

  __device__ __forceinline__ PieceCopies(const void* first, int line_bytes, int there, int thread) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int i = j * threads + thread, line = i / kPieces, piece = i % kPieces;
      const bool is_there = i < kAll && line < there;
      from[j] = static_cast<const unsigned char*>(first) +
                (is_there ? line * static_cast<std::int64_t>(line_bytes) : 0) + 16 * piece;
      to[j] = line * pitch + 16 * piece;
      left[j] = kWhole || is_there ? line_bytes - 16 * piece : 0;
    }
    mine = kAll % threads == 0 || (kCount - 1) * threads + thread < kAll;
  }
  __device__ __forceinline__ void start(unsigned char* stage) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      copy_async(stage + to[j], from[j], left[j] > 0, j + 1 < kCount || mine);
      from[j] += kStep;
      if (!kWhole) left[j] -= kStep;
    }
  }
};

// The part of x in the stages, one after the other: slabs of the block's rows, copied unchanged. By copies of
// each thread, or, if blocks share, by bulk copies of one thread in a warp that does nothing else, which
// arrive at the stage's barrier. Lines without a row are not written: the rows of a product are independent.
template <ProductTile tile>
struct RowCopies {
  static constexpr int kThreads = product_threads(tile), kSlabs = tile.depth / kSlab,
                       kSlabBytes = tile.rows * kSlabRowBytes, kPieces = kSlabBytes / 16,
                       kShare = tile.rows / tile.cluster;  // rows that a block copies to all blocks
  static_assert(kPieces % kThreads == 0 && tile.rows % tile.cluster == 0);
  // Blocks that share fill the place of the stage before the previous one.
  static_assert(tile.cluster == 1 || tile.stages > 2);
  const unsigned char* from;
  int slab, there;  // bytes of a slab of all rows; the block's lines that have rows
  // Two per place of the ring: one at which x arrives, and one at which blocks signal that the place is free.
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
  // These functions and make_barriers() are called by one thread, after __syncthreads() has ensured that no
  // thread of the block still reads this place. free() signals all blocks; once all have signalled, this
  // block's part of a stage is copied there.
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

}  // namespace pagoda::device::kernels
