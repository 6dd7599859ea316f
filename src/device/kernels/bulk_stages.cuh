#pragma once
// How products by warpgroups go from tile to tile, and how what they read comes to them: stages of k go
// through a ring in shared memory. Some warps of a block multiply, the others bring: x by bulk copies to all
// blocks of the cluster, which have the same rows; and weights by asynchronous copies, which arrive by
// themselves. A fence between what threads and copies write and what products read waits for all that its own
// thread has under way. So copies have a thread that does nothing else than to wait for them, fence, and
// tell. Blocks stay: a cluster goes from tile to tile, and what brings is ahead of what multiplies and
// stores. Which warps multiply what, and how the sums are stored, is each product's: linear_bulk.cuh,
// linear_narrow.cuh, linear_float8.cuh.
#include "device/kernels/linear_tiles.cuh"
#include "device/kernels/warpgroup_words.cuh"

namespace pagoda::device::kernels {

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

}  // namespace pagoda::device::kernels
