#pragma once
// Shared parts of products by warpgroups: the order of tiles, and the copies of their inputs. Stages of k go
// through a ring in shared memory. Some warps of a block multiply; the others copy: x by bulk copies to all
// blocks of the cluster, which have the same rows; and weights by asynchronous copies, which arrive at a
// barrier by themselves. A fence between the writes of threads and copies and the reads of products waits for
// everything that its own thread has in flight. Therefore a separate thread waits for the copies, executes
// the fence, and signals; it does nothing else. Blocks are persistent: a cluster goes from tile to tile, and
// its copying warps run ahead of its multiplying and storing warps. The division of products among warps and
// the stores of sums are specific to each product: linear_bulk.cuh, linear_narrow.cuh, linear_float8.cuh.
#include "device/kernels/linear_tiles.cuh"
#include "device/kernels/warpgroup_words.cuh"

namespace pagoda::device::kernels {

// The sequence of tiles of a cluster: neighbours have the same columns and other rows, up to kGroup, and then
// the next columns. So clusters that run at the same time repeatedly read few rows of the weights and of x,
// which both fit into the L2; all rows of x may not.
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
  // The first tile of rows in the group, and the number of them in the group.
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

// The ring: its barriers, at which a place is filled, at which it is free again, and at which asynchronous
// copies arrive before it is filled; and the current place.
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
  // `widens`: every copying thread signals `filled`, otherwise only the signalling thread; in both cases also
  // the thread that expects x. `readers`: number of multiplying warps in all blocks.
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
// Copies a block's part of x to its whole cluster, stage after stage of a tile.
template <ProductTile tile, class Sizes>
struct SharedRows {
  static constexpr int kShare = tile.rows / tile.cluster;  // rows that a block copies to all blocks
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
  // Called by one thread, once the stage is free in all blocks.
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

// Copies x. Called by one thread.
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

// Signals copies that have arrived. Called by one thread.
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
  static_assert(kLines == 8);  // and eight rows of a gate precede the matching rows of up
  const unsigned char* from;
  std::int64_t step, opened;
  int to, count, left;  // count: existing lines of this thread; left: remaining bytes of a line

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
      for (int slab = 0; slab < Sizes::kSlabs; ++slab)  // nothing is read for lines that do not exist
        copy_async(stage + to + slab * Sizes::kSlabBytes + j * kLines * kSlabRowBytes,
                   line + slab * kSlabRowBytes, which < count && left > slab * kSlabRowBytes);
    }
    from += Sizes::kSlabs * kSlabRowBytes;
    left -= Sizes::kSlabs * kSlabRowBytes;
  }
};

// Likewise for scales per kFloat8Scale of k: the piece of each line that has the stage's scales.
template <ProductTile tile, class T>
struct ScaleCopies {
  static constexpr int kCount = (tile.columns + kBulkCopiers - 1) / kBulkCopiers;
  const unsigned char* from;
  std::int64_t step;
  int thread, count;  // count: as in BulkCopies

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

// Copies weights unchanged. `thread`: number among the copying threads.
template <ProductTile tile, bool gated, class Sizes, class T = Bf16>
__device__ __forceinline__ void bring(const LinearArgs& args, unsigned char* shared, int thread) {
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  Ring<tile.stages, Sizes::kStageBytes> ring(shared);
  if (thread == kBulkSharer) bring_rows<tile, gated, Sizes>(args, ring);
  if (thread == kBulkTeller) tell<tile, gated>(args, ring);
  __syncwarp();  // wait for the thread that did
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

// A warp's position in the stages of its cluster's tiles.
template <ProductTile tile, bool gated, class Sizes>
struct StageReader {
  Ring<tile.stages, Sizes::kStageBytes> ring, behind;
  int left;  // stages still to go through the ring

  __device__ __forceinline__ StageReader(const LinearArgs& args, unsigned char* shared)
      : ring(shared),
        behind(shared),
        left(BulkTiles<tile, gated>(args).left() * ((args.k + tile.depth - 1) / tile.depth)) {}
  // Returns the next stage, once it has arrived.
  __device__ __forceinline__ const unsigned char* next() {
    wait_for_arrivals(ring.filled + ring.place, ring.parity);
    const unsigned char* const stage = ring.stage();
    ring.next();
    return stage;
  }
  // Frees the first stage that is not free yet. A place that will not be filled again is not signalled: its
  // block may have ended.
  __device__ __forceinline__ void free() {
    if (threadIdx.x % 32 == 0 && left > tile.stages)
#pragma unroll
      for (unsigned rank = 0; rank < tile.cluster; ++rank) arrive_at(behind.freed + behind.place, rank);
    --left;
    behind.next();
  }
};

// The loop of a warpgroup: `multiply` starts the products of a stage, and `store` stores a tile's sums. Sums:
// ProductSums of 64 lines.
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
    fence_products(sums);  // nothing may read them before
    store(tiles, all);
  }
}

}  // namespace pagoda::device::kernels
