#pragma once
// Products of many rows by warpgroups (wgmma): linear_tiles.cuh for devices of compute capability 9.0. A
// block has tile.rows rows of x, which come rounded and in slabs (launch_shapes.h), and tile.columns rows of
// the weights; stages of kSlab of k go through a ring in shared memory. Its first warps are two warpgroups
// that multiply 64 rows of the weights each by all of the block's x. The last ones bring: x by bulk copies to
// all blocks of the cluster, which have the same rows; and weights in bfloat16 by asynchronous copies, which
// arrive by themselves, or quantised ones through registers, where each thread widens a row of the block's. A
// fence between what threads and copies write and what products read waits for all that its own thread has
// under way. So copies have a thread that does nothing else than to wait for them, fence, and tell. Blocks
// stay: a cluster goes from tile to tile, and what brings is ahead of what multiplies and stores.
//
// The sum of every element of y is the chain of linear_tiles.cuh: steps of 16 of k, ascending from zero
// (warpgroup_words.cuh). So this is a form of the same product and gives the same bits, which each device is
// asked for.
//
// linear_bulk_gated is the product of a gate and of what it opens: each eight rows of the one lie before the
// same of the other in a block's weights, so that a thread has both sums of an element, and stores the
// function of them, rounded as the next product reads it. grid: (1, clusters of blocks); block: kBulkThreads;
// shared: product_shared_bytes().
#include "device/kernels/linear_tiles.cuh"
#include "device/kernels/rows.cuh"
#include "device/kernels/warpgroup_words.cuh"
#include "device/kernels/weight_lines.cuh"

namespace pagoda::device::kernels {

template <ProductTile tile>
struct BulkSizes {
  static constexpr int kEights = tile.rows / 8, kRowBytes = tile.rows * kSlabRowBytes,
                       kWeightBytes = 64 * kSlabRowBytes,  // a warpgroup's
      kSlabs = 1, kSlabBytes = kRowBytes + kBulkWarpgroups * kWeightBytes, kStageBytes = kSlabBytes;
  // A stage is free once the one behind it is there: of two stages no copy is under way.
  static_assert(tile.depth == kSlab && tile.columns == 64 * kBulkWarpgroups && tile.cluster > 1);
  static_assert(tile.stages > 2);
  static constexpr bool kUneven = kEights > 16;  // sums need more registers than an equal share
  static_assert(kRowBytes % 1024 == 0);          // matrices begin where they are swizzled from
};

// The tiles of a cluster, one after the other: neighbours have the same columns and other rows, up to
// kGroup, and then the next columns. So clusters which run side by side read few rows of the weights and of
// x again and again, and the L2 holds both; all rows of x may be more than it does.
template <ProductTile tile, bool gated = false>
struct BulkTiles {
  static constexpr int kOfBlock = gated ? tile.columns / 2 : tile.columns, kGroup = 8,
                       kColumns = tile.cluster * kOfBlock;
  int of_rows, of_columns, number, step;
  __device__ __forceinline__ explicit BulkTiles(const LinearArgs& args)
      : of_rows((args.rows + tile.rows - 1) / tile.rows),
        of_columns((args.n + kColumns - 1) / kColumns),
        number(static_cast<int>(blockIdx.y) / tile.cluster),
        step(static_cast<int>(gridDim.y) / tile.cluster) {}
  __device__ __forceinline__ int count() const { return of_rows * of_columns; }
  __device__ __forceinline__ bool is_there() const { return number < count(); }
  __device__ __forceinline__ void next() { number += step; }
  __device__ __forceinline__ int left() const { return is_there() ? (count() - 1 - number) / step + 1 : 0; }
  // The group's first tile of rows, and how many it has.
  __device__ __forceinline__ int group() const { return number / (kGroup * of_columns) * kGroup; }
  __device__ __forceinline__ int in_group() const {
    return of_rows - group() < kGroup ? of_rows - group() : kGroup;
  }
  __device__ __forceinline__ int first_row() const {
    return (group() + (number - group() * of_columns) % in_group()) * tile.rows;
  }
  __device__ __forceinline__ int first_column() const {
    return (number - group() * of_columns) / in_group() * kColumns +
           static_cast<int>(rank_in_cluster()) * kOfBlock;
  }
};

// The ring: barriers at which a place is filled, and free again, and at which asynchronous copies arrive
// before it is filled; and who goes from place to place.
template <int places, int stage_bytes>
struct Ring {
  unsigned char* stages;
  std::uint64_t *filled, *freed, *copied;
  int place = 0;
  unsigned parity = 0;
  __device__ __forceinline__ explicit Ring(unsigned char* shared)
      : stages(shared),
        filled(reinterpret_cast<std::uint64_t*>(shared + places * stage_bytes)),
        freed(filled + places),
        copied(freed + places) {}
  // `widens`: all who bring fill a place, else who tells does; and who expects x. `readers`: warps that
  // multiply, of all blocks.
  __device__ __forceinline__ void make_barriers(bool widens, unsigned readers) const {
    for (int i = 0; i < places; ++i) {
      make_arrivals(filled + i, (widens ? kBulkBringers : 1) + 1);
      make_arrivals(freed + i, readers);
      if (!widens) make_arrivals(copied + i, kBulkCopiers);
    }
  }
  __device__ __forceinline__ unsigned char* stage() const { return stages + place * stage_bytes; }
  __device__ __forceinline__ void next() {
    place = place + 1 == places ? 0 : place + 1;
    if (place == 0) parity ^= 1;
  }
};
template <ProductTile tile>
using BulkRing = Ring<tile.stages, BulkSizes<tile>::kStageBytes>;

// A block's part of x for all of its cluster, stage after stage of a tile.
template <ProductTile tile, class Sizes>
struct SharedRows {
  static constexpr int kShare = tile.rows / tile.cluster;  // rows that a block brings to all
  const unsigned char* from;
  std::int64_t slab;
  int first, lines;
  unsigned expected;
  __device__ __forceinline__ SharedRows(const LinearArgs& args, int first_row)
      : slab(static_cast<std::int64_t>(args.rows) * kSlabRowBytes),
        first(static_cast<int>(rank_in_cluster()) * kShare) {
    const int rows = args.rows - first_row, there = rows < tile.rows ? rows : tile.rows;
    from = reinterpret_cast<const unsigned char*>(args.rounded) +
           static_cast<std::int64_t>(first_row + first) * kSlabRowBytes;
    lines = there - first < kShare ? there - first : kShare;
    expected = static_cast<unsigned>(Sizes::kSlabs * there * kSlabRowBytes);
  }
  // By one thread, to whom the stage is free in all blocks.
  __device__ __forceinline__ void start(unsigned char* stage, std::uint64_t* barrier) {
    expect_arrivals(barrier, expected);
    if (lines > 0)
#pragma unroll
      for (int i = 0; i < Sizes::kSlabs; ++i)
        copy_to_cluster(stage + i * Sizes::kSlabBytes + first * kSlabRowBytes, from + i * slab,
                        static_cast<unsigned>(lines * kSlabRowBytes), barrier, (1u << tile.cluster) - 1);
    from += Sizes::kSlabs * slab;
  }
};

// Brings x, by one thread.
template <ProductTile tile, bool gated, class Sizes, class Ring>
__device__ __forceinline__ void bring_rows(const LinearArgs& args, Ring ring) {
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  int started = 0;
  for (BulkTiles<tile, gated> tiles(args); tiles.is_there(); tiles.next()) {
    SharedRows<tile, Sizes> x(args, tiles.first_row());
    for (int i = 0; i < stages; ++i, ++started) {
      if (started >= tile.stages) wait_for_arrivals(ring.freed + ring.place, ring.parity ^ 1);
      x.start(ring.stage(), ring.filled + ring.place);
      ring.next();
    }
  }
}

// Tells of copies that are there, by one thread.
template <ProductTile tile, bool gated, class Ring>
__device__ __forceinline__ void tell(const LinearArgs& args, Ring ring) {
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  for (int left = BulkTiles<tile, gated>(args).left() * stages; left > 0; --left) {
    wait_for_arrivals(ring.copied + ring.place, ring.parity);
    show_writes();
    arrive_here(ring.filled + ring.place);
    ring.next();
  }
}

// A thread's copies of a block's weights, stage after stage: its piece of every kLines-th line, from row
// `first` of n on.
template <ProductTile tile, bool gated, class Sizes, class T>
struct BulkCopies {
  static constexpr int kPieces = kSlabRowBytes / 16, kLines = kBulkCopiers / kPieces,
                       kCount = tile.columns / kLines;
  static_assert(kLines == 8);  // and eight rows of a gate lie before those of what it opens
  const unsigned char* from;
  std::int64_t step, opened;
  int to, count, left;  // count: lines of this thread that there are; left: bytes of a line

  __device__ __forceinline__ BulkCopies(const LinearArgs& args, int first, int thread) {
    const int line = thread / kPieces, piece = thread % kPieces, row = first + line;
    const std::int64_t row_bytes = row_bytes_of<T>(args.k);
    from = static_cast<const unsigned char*>(args.weight) + row * row_bytes + 16 * piece;
    step = kLines * row_bytes;
    opened = args.n * row_bytes;
    to = swizzled(line, piece, kSlabRowBytes);
    count = args.n > row ? (args.n - row + kLines - 1) / kLines : 0;
    left = code_bytes_of<T>(args.k) - 16 * piece;
  }
  __device__ __forceinline__ void start(unsigned char* stage) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int which = gated ? j / 2 : j;
      const unsigned char* const line = from + which * step + (gated ? j % 2 * opened : 0);
#pragma unroll
      for (int slab = 0; slab < Sizes::kSlabs; ++slab)  // nothing is read where no line is there
        copy_async(stage + to + slab * Sizes::kSlabBytes + j * kLines * kSlabRowBytes,
                   line + slab * kSlabRowBytes, which < count && left > slab * kSlabRowBytes);
    }
    from += Sizes::kSlabs * kSlabRowBytes;
    left -= Sizes::kSlabs * kSlabRowBytes;
  }
};

// The same of scales for each kFloat8Scale of k, a piece of each line, in which the stage's are.
template <ProductTile tile, class T>
struct ScaleCopies {
  static constexpr int kCount = (tile.columns + kBulkCopiers - 1) / kBulkCopiers;
  const unsigned char* from;
  std::int64_t step;
  int thread, count;  // count: as BulkCopies has it

  __device__ __forceinline__ ScaleCopies(const LinearArgs& args, int first, int copier) : thread(copier) {
    const std::int64_t row_bytes = row_bytes_of<T>(args.k);
    const int row = first + thread, end = args.n < first + tile.columns ? args.n : first + tile.columns;
    from = static_cast<const unsigned char*>(args.weight) + row * row_bytes + code_bytes_of<T>(args.k);
    step = kBulkCopiers * row_bytes;
    count = end > row ? (end - row + kBulkCopiers - 1) / kBulkCopiers : 0;
  }
  __device__ __forceinline__ void start(unsigned char* to, int first_k) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      if (kBulkCopiers * j + thread < tile.columns)
        copy_async(to + 16 * (kBulkCopiers * j + thread), from + j * step + scale_piece(first_k), j < count);
  }
};

// Brings weights as they lie there. `thread`: of those who bring.
template <ProductTile tile, bool gated, class Sizes, class T = Bf16>
__device__ __forceinline__ void bring(const LinearArgs& args, unsigned char* shared, int thread) {
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  Ring<tile.stages, Sizes::kStageBytes> ring(shared);
  if (thread == kBulkSharer) bring_rows<tile, gated, Sizes>(args, ring);
  if (thread == kBulkTeller) tell<tile, gated>(args, ring);
  __syncwarp();  // with those who did
  if (thread >= kBulkCopiers) return;
  int started = 0;
  for (BulkTiles<tile, gated> tiles(args); tiles.is_there(); tiles.next()) {
    BulkCopies<tile, gated, Sizes, T> weights(args, tiles.first_column(), thread);
    const ScaleCopies<tile, T> scales(args, tiles.first_column(), thread);
    for (int i = 0; i < stages; ++i, ++started) {
      if (started >= tile.stages) wait_for_arrivals(ring.freed + ring.place, ring.parity ^ 1);
      weights.start(ring.stage() + Sizes::kRowBytes);
      if constexpr (kScalesOfBlocks<T>) scales.start(ring.stage() + Sizes::kFirstScale, i * tile.depth);
      arrive_with_copies(ring.copied + ring.place);
      ring.next();
    }
  }
}

// Quantised: a thread has a row, of which the next 128 weights are on their way while these are widened.
template <ProductTile tile, class T>
__device__ __forceinline__ void bring_widened(const LinearArgs& args, unsigned char* shared, int thread) {
  using Sizes = BulkSizes<tile>;
  constexpr int kHalves = kQuantizedUnit / tile.depth, kGroups = tile.depth / kQuantizedGroup;
  static_assert(tile.columns == kBulkBringers);
  const int stages = args.k / tile.depth, row_bytes = row_bytes_of<T>(args.k);
  BulkRing<tile> ring(shared);
  int started = 0;
  for (BulkTiles<tile> tiles(args); tiles.is_there(); tiles.next()) {
    const int column = tiles.first_column() + thread;
    const unsigned char* from = static_cast<const unsigned char*>(args.weight) +
                                (column < args.n ? column * static_cast<std::int64_t>(row_bytes) : 0);
    int left = column < args.n ? row_bytes : 0;  // no line: what is multiplied there is not stored
    SharedRows<tile, Sizes> x(args, tiles.first_row());
    WeightUnit<T> next;
    const auto load = [&] {
      next.load(from, left);
      from += WeightUnit<T>::kBytes;
      left -= WeightUnit<T>::kBytes;
    };
    load();
    for (int i = 0; i < stages; i += kHalves) {
      const WeightUnit<T> unit = next;
      const bool there = column < args.n;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        if (i + half >= stages) break;
        if (started++ >= tile.stages) wait_for_arrivals(ring.freed + ring.place, ring.parity ^ 1);
        if (thread == 0) x.start(ring.stage(), ring.filled + ring.place);
        unsigned char* const line = ring.stage() + Sizes::kRowBytes;
#pragma unroll
        for (int group = 0; there && group < kGroups; ++group) {
          WidePieces pieces;
          widen_group(unit, half * kGroups + group, pieces);
#pragma unroll
          for (int piece = 0; piece < 4; ++piece)
            store_whole(line + swizzled(thread, 4 * group + piece, kSlabRowBytes), pieces[piece]);
        }
        show_writes();
        arrive_here(ring.filled + ring.place);
        ring.next();
        if (half == 0) load();  // behind the first fence, and a half in front of the next one
      }
    }
  }
}

// Stores a warpgroup's part of a tile, from column `first_n` of y on: a thread has two of its columns.
template <ProductTile tile>
__device__ __forceinline__ void store_part(const LinearArgs& args, int first_row, int first_n,
                                           const float (&sums)[BulkSizes<tile>::kEights][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first = first_row + 2 * (lane % 4),
            column = first_n + static_cast<int>(threadIdx.x / 32) % 4 * 16 + lane / 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (column + 8 * h >= args.n) continue;
    const float bias = args.bias != nullptr ? args.bias[column + 8 * h] : 0.0f;
    float* y = args.y + static_cast<std::int64_t>(first) * args.stride + column + 8 * h;
#pragma unroll
    for (int n = 0; n < BulkSizes<tile>::kEights; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (first + 8 * n + i >= args.rows) continue;
        const float sum = sums[n][2 * h + i] + bias;
        float* const to = y + i * static_cast<std::int64_t>(args.stride);
        *to = args.accumulate != 0 ? *to + sum : sum;
      }
      y += 8 * static_cast<std::int64_t>(args.stride);
    }
  }
}

// The same of gated ones: a thread has a gate and what it opens. `out`: GatedLinearArgs'.
template <ProductTile tile>
__device__ __forceinline__ void store_gated(const LinearArgs& args, std::uint16_t* out, int first_row,
                                            int first_n, const float (&sums)[BulkSizes<tile>::kEights][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first = first_row + 2 * (lane % 4),
            column = first_n + static_cast<int>(threadIdx.x / 32) % 4 * 8 + lane / 4;
  if (column >= args.n) return;
  const float gate_bias = args.bias != nullptr ? args.bias[column] : 0.0f,
              bias = args.bias != nullptr ? args.bias[args.n + column] : 0.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    std::uint16_t* to = out + slab_place(args.rows, first + i, column);
#pragma unroll
    for (int n = 0; n < BulkSizes<tile>::kEights; ++n) {
      if (first + 8 * n + i < args.rows) {
        Bf16 rounded;
        store(&rounded, gated(Function::silu, sums[n][i] + gate_bias, sums[n][2 + i] + bias));
        *to = rounded.bits;
      }
      to += 8 * kSlab;
    }
  }
}

// A warp's way through the stages of its cluster's tiles.
template <ProductTile tile, bool gated, class Sizes>
struct StageReader {
  Ring<tile.stages, Sizes::kStageBytes> ring, behind;
  int left;  // stages that go through the ring

  __device__ __forceinline__ StageReader(const LinearArgs& args, unsigned char* shared)
      : ring(shared),
        behind(shared),
        left(BulkTiles<tile, gated>(args).left() * ((args.k + tile.depth - 1) / tile.depth)) {}
  // The next stage, once it is there.
  __device__ __forceinline__ const unsigned char* next() {
    wait_for_arrivals(ring.filled + ring.place, ring.parity);
    const unsigned char* const stage = ring.stage();
    ring.next();
    return stage;
  }
  // The first that is not free yet is. Nobody hears of a place that is not filled again: its block may have
  // ended.
  __device__ __forceinline__ void free() {
    if (threadIdx.x % 32 == 0 && left > tile.stages)
#pragma unroll
      for (unsigned rank = 0; rank < tile.cluster; ++rank) arrive_at(behind.freed + behind.place, rank);
    --left;
    behind.next();
  }
};

// A warpgroup's: `multiply` starts the products of a stage, and `store` has a tile's sums. Sums: ProductSums
// of 64 lines.
template <ProductTile tile, bool gated, class Sizes, class Sums, class Multiply, class Store>
__device__ __forceinline__ void multiply_and_store(const LinearArgs& args, unsigned char* shared,
                                                   const Multiply& multiply, const Store& store) {
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  StageReader<tile, gated, Sizes> reader(args, shared);
  for (BulkTiles<tile, gated> tiles(args); tiles.is_there(); tiles.next()) {
    Sums all;
    clear(all);
    auto& sums = all.at[0];
    for (int i = 0; i < stages; ++i) {
      const unsigned char* const stage = reader.next();
      fence_products(sums);
      multiply(stage, sums);
      commit_products();
      if (i == 0) continue;
      wait_for_products<1>();
      reader.free();
    }
    wait_for_products<0>();
    reader.free();
    fence_products(sums);  // nothing reads them before
    store(tiles, all);
  }
}

template <ProductTile tile, bool gated>
__device__ __forceinline__ void multiply_bulk(const LinearArgs& args, std::uint16_t* out,
                                              unsigned char* shared) {
  using Sizes = BulkSizes<tile>;
  using Sums = ProductSums<Bf16, ProductTile{64, tile.rows, tile.depth, 4, 1, tile.stages}>;
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  multiply_and_store<tile, gated, Sizes, Sums>(
      args, shared,
      [&](const unsigned char* x, auto& sums) {
        const unsigned char* const weights = x + Sizes::kRowBytes + warpgroup * Sizes::kWeightBytes;
#pragma unroll
        for (int k = 0; k < kSlabRowBytes; k += 32) multiply_warpgroup(sums, weights + k, x + k);
      },
      [&](const auto& tiles, const Sums& all) {
        if constexpr (gated)
          store_gated<tile>(args, out, tiles.first_row(), tiles.first_column() + 32 * warpgroup, all.at[0]);
        else
          store_part<tile>(args, tiles.first_row(), tiles.first_column() + 64 * warpgroup, all.at[0]);
      });
}

template <class T, ProductTile tile, bool gated>
__device__ __forceinline__ void linear_bulk(const LinearArgs& args, std::uint16_t* out) {
  begin_kernel();
  PAGODA_SWIZZLED_SHARED(unsigned char, shared);
  constexpr bool kQuantized = kGroupBytes<T> != kGroupBytes<Bf16>;
  if (threadIdx.x == 0) BulkRing<tile>(shared).make_barriers(kQuantized, tile.cluster * kBulkWarpgroups * 4);
  cluster_arrive();
  cluster_wait();  // the barriers of all are there
  if (threadIdx.x < 128 * kBulkWarpgroups) {
    if constexpr (BulkSizes<tile>::kUneven) set_registers<kBulkRegisters<kQuantized>, true>();
    multiply_bulk<tile, gated>(args, out, shared);
  } else {
    if constexpr (BulkSizes<tile>::kUneven) set_registers<kBulkBringersRegisters<kQuantized>, false>();
    const int thread = static_cast<int>(threadIdx.x) - 128 * kBulkWarpgroups;
    if constexpr (kQuantized)
      bring_widened<tile, T>(args, shared, thread);
    else
      bring<tile, gated, BulkSizes<tile>>(args, shared, thread);
  }
  cluster_arrive();  // a block stays until all have what it brought
  cluster_wait();
}

#if defined(__CUDA_ARCH__) && !defined(PAGODA_WARPGROUPS)
#define PAGODA_BULK_KERNEL(rows, name, T) \
  __global__ void linear_bulk_##rows##_##name(LinearArgs) { begin_kernel(); }
#define PAGODA_GATED_KERNEL(rows) \
  __global__ void linear_bulk_gated_##rows##_bf16(GatedLinearArgs) { begin_kernel(); }
#else
#define PAGODA_BULK_KERNEL(rows, name, T)                                                           \
  __global__ void __launch_bounds__(kBulkThreads, 1) linear_bulk_##rows##_##name(LinearArgs args) { \
    linear_bulk<T, bulk_rows(rows), false>(args, nullptr);                                          \
  }
#define PAGODA_GATED_KERNEL(rows)                                                                            \
  __global__ void __launch_bounds__(kBulkThreads, 1) linear_bulk_gated_##rows##_bf16(GatedLinearArgs args) { \
    linear_bulk<Bf16, bulk_rows(rows), true>(args.product, args.out);                                        \
  }
#endif
#define PAGODA_BULK_KERNELS(rows)             \
  PAGODA_GATED_KERNEL(rows)                   \
  PAGODA_BULK_KERNEL(rows, bf16, Bf16)        \
  PAGODA_BULK_KERNEL(rows, q4, Quantized4)    \
  PAGODA_BULK_KERNEL(rows, q8, Quantized8)    \
  PAGODA_BULK_KERNEL(rows, q4_k, Quantized4K) \
  PAGODA_BULK_KERNEL(rows, q6_k, Quantized6K)
PAGODA_BULK_KERNELS(64)
PAGODA_BULK_KERNELS(128)
PAGODA_BULK_KERNELS(256)
#undef PAGODA_BULK_KERNELS
#undef PAGODA_GATED_KERNEL
#undef PAGODA_BULK_KERNEL

}  // namespace pagoda::device::kernels
