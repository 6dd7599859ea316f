#pragma once
// Products of many rows by warpgroups (wgmma), with weights in bfloat16: linear_tiles.cuh for devices of
// compute capability 9.0. A block has tile.rows rows of x, which come rounded and in slabs (launch_shapes.h),
// and tile.columns rows of the weights; stages of kSlab of k go through a ring in shared memory. Its first
// warps are two warpgroups that multiply 64 rows of the weights each by all of the block's x. The last ones
// bring: weights by asynchronous copies, which arrive at the stage's barrier by themselves, and x by bulk
// copies to all blocks of the cluster, which have the same rows. They wait for nothing but a free place in
// the ring. Blocks stay: a cluster goes from tile to tile, and what brings is ahead of what multiplies and
// stores.
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

namespace pagoda::device::kernels {

template <ProductTile tile>
struct BulkSizes {
  static constexpr int kEights = tile.rows / 8, kRowBytes = tile.rows * kSlabRowBytes,
                       kWeightBytes = 64 * kSlabRowBytes,  // a warpgroup's
      kStageBytes = kRowBytes + kBulkWarpgroups * kWeightBytes,
                       kShare = tile.rows / tile.cluster;  // rows that a block brings to all
  // A stage is free once the one behind it is there: of two stages no copy is under way.
  static_assert(tile.depth == kSlab && tile.columns == 64 * kBulkWarpgroups && tile.cluster > 1);
  static_assert(tile.stages > 2);
  static constexpr bool kUneven = kEights > 16;  // sums need more registers than an equal share
  static_assert(kRowBytes % 1024 == 0);          // matrices begin where they are swizzled from
};

// The tiles of a cluster, one after the other: neighbours have the same columns and other rows, up to
// kGroup, and then the next columns. So clusters which run side by side read few rows of the weights and of
// x again and again, and the L2 holds both; all rows of x may be more than it does.
template <ProductTile tile, bool gated>
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

// The ring: barriers at which a place is filled, and free again; and who goes from place to place.
template <ProductTile tile>
struct BulkRing {
  unsigned char* stages;
  std::uint64_t *filled, *freed;
  int place = 0;
  unsigned parity = 0;
  __device__ __forceinline__ explicit BulkRing(unsigned char* shared)
      : stages(shared),
        filled(reinterpret_cast<std::uint64_t*>(shared + tile.stages * BulkSizes<tile>::kStageBytes)),
        freed(filled + tile.stages) {}
  // Those who bring weights, and who expects x; warps that multiply, of all blocks.
  __device__ __forceinline__ void make_barriers() const {
    for (int i = 0; i < tile.stages; ++i) {
      make_arrivals(filled + i, kBulkBringers + 1);
      make_arrivals(freed + i, tile.cluster * kBulkWarpgroups * 4);
    }
  }
  __device__ __forceinline__ unsigned char* stage() const {
    return stages + place * BulkSizes<tile>::kStageBytes;
  }
  __device__ __forceinline__ void next() {
    place = place + 1 == tile.stages ? 0 : place + 1;
    if (place == 0) parity ^= 1;
  }
};

// A block's weights, from row `first` of n on.
template <ProductTile tile, bool gated>
__device__ __forceinline__ auto bulk_weights(const LinearArgs& args, int first, int thread) {
  const auto* const all = static_cast<const unsigned char*>(args.weight);
  const std::int64_t row_bytes = std::int64_t{2} * args.k;
  LineCopies<tile.columns, kSlabRowBytes / 16, kBulkBringers> copies(all + first * row_bytes, 2 * args.k,
                                                                     args.n - first, thread);
  if constexpr (gated) {
    static_assert(decltype(copies)::kStep == 16);
    const int line = thread / (kSlabRowBytes / 16), row = first + line % 8;
    copies.from += (row + (line < 8 ? 0 : args.n) - first - line) * row_bytes;
    copies.step = 8 * row_bytes;
    copies.count = args.n > row ? (args.n - row + 7) / 8 : 0;
  }
  return copies;
}

template <ProductTile tile, bool gated>
__device__ __forceinline__ void bring(const LinearArgs& args, unsigned char* shared) {
  using Sizes = BulkSizes<tile>;
  const int thread = static_cast<int>(threadIdx.x) - 128 * kBulkWarpgroups;
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  const std::int64_t slab = static_cast<std::int64_t>(args.rows) * kSlabRowBytes;
  const int first = static_cast<int>(rank_in_cluster()) * Sizes::kShare;
  BulkRing<tile> ring(shared);
  int started = 0;
  for (BulkTiles<tile, gated> tiles(args); tiles.is_there(); tiles.next()) {
    auto weights = bulk_weights<tile, gated>(args, tiles.first_column(), thread);
    const unsigned char* x = reinterpret_cast<const unsigned char*>(args.rounded) +
                             static_cast<std::int64_t>(tiles.first_row() + first) * kSlabRowBytes;
    const int rows = args.rows - tiles.first_row(), there = rows < tile.rows ? rows : tile.rows,
              lines = there - first < Sizes::kShare ? there - first : Sizes::kShare;
    for (int i = 0; i < stages; ++i, ++started) {
      if (started >= tile.stages) wait_for_arrivals(ring.freed + ring.place, ring.parity ^ 1);
      if (thread == 0) {
        expect_arrivals(ring.filled + ring.place, static_cast<unsigned>(there * kSlabRowBytes));
        if (lines > 0)
          copy_to_cluster(ring.stage() + first * kSlabRowBytes, x,
                          static_cast<unsigned>(lines * kSlabRowBytes), ring.filled + ring.place,
                          (1u << tile.cluster) - 1);
      }
      x += slab;
      weights.start(ring.stage() + Sizes::kRowBytes);
      arrive_with_copies(ring.filled + ring.place);
      ring.next();
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

template <ProductTile tile, bool gated>
__device__ __forceinline__ void multiply_and_store(const LinearArgs& args, std::uint16_t* out,
                                                   unsigned char* shared) {
  using Sizes = BulkSizes<tile>;
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  const int stages = (args.k + tile.depth - 1) / tile.depth;
  BulkTiles<tile, gated> tiles(args);
  // Stages that go through the ring. Nobody hears of a place that is not filled again: its block may have
  // ended.
  int left = tiles.left() * stages;
  BulkRing<tile> ring(shared), behind(shared);
  const auto free = [&] {
    if (threadIdx.x % 32 == 0 && left > tile.stages)
#pragma unroll
      for (unsigned rank = 0; rank < tile.cluster; ++rank) arrive_at(behind.freed + behind.place, rank);
    --left;
    behind.next();
  };
  for (; tiles.is_there(); tiles.next()) {
    float sums[Sizes::kEights][4];
#pragma unroll
    for (int n = 0; n < Sizes::kEights; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] = 0;
    for (int i = 0; i < stages; ++i) {
      wait_for_arrivals(ring.filled + ring.place, ring.parity);
      show_writes();  // those of who brings: its copies do not wait for a fence of its own
      const unsigned char *const x = ring.stage(), *const weights =
                                                       x + Sizes::kRowBytes + warpgroup * Sizes::kWeightBytes;
      fence_products(sums);
#pragma unroll
      for (int k = 0; k < kSlabRowBytes; k += 32) multiply_warpgroup(sums, weights + k, x + k);
      commit_products();
      ring.next();
      if (i == 0) continue;
      wait_for_products<1>();
      free();
    }
    wait_for_products<0>();
    free();
    fence_products(sums);  // nothing reads them before
    if constexpr (gated)
      store_gated<tile>(args, out, tiles.first_row(), tiles.first_column() + 32 * warpgroup, sums);
    else
      store_part<tile>(args, tiles.first_row(), tiles.first_column() + 64 * warpgroup, sums);
  }
}

template <ProductTile tile, bool gated>
__device__ __forceinline__ void linear_bulk(const LinearArgs& args, std::uint16_t* out) {
  begin_kernel();
  PAGODA_SWIZZLED_SHARED(unsigned char, shared);
  if (threadIdx.x == 0) BulkRing<tile>(shared).make_barriers();
  cluster_arrive();
  cluster_wait();  // the barriers of all are there
  if (threadIdx.x < 128 * kBulkWarpgroups) {
    if constexpr (BulkSizes<tile>::kUneven) set_registers<kBulkRegisters, true>();
    multiply_and_store<tile, gated>(args, out, shared);
  } else {
    if constexpr (BulkSizes<tile>::kUneven) set_registers<kBulkBringersRegisters, false>();
    bring<tile, gated>(args, shared);
  }
  cluster_arrive();  // a block stays until all have what it brought
  cluster_wait();
}

#if defined(__CUDA_ARCH__) && !defined(PAGODA_WARPGROUPS)
#define PAGODA_BULK_KERNEL(rows)                           \
  __global__ void linear_bulk_##rows##_bf16(LinearArgs) { begin_kernel(); } \
  __global__ void linear_bulk_gated_##rows##_bf16(GatedLinearArgs) { begin_kernel(); }
#else
#define PAGODA_BULK_KERNEL(rows)                                                                             \
  __global__ void __launch_bounds__(kBulkThreads, 1) linear_bulk_##rows##_bf16(LinearArgs args) {            \
    linear_bulk<bulk_rows(rows), false>(args, nullptr);                                                      \
  }                                                                                                          \
  __global__ void __launch_bounds__(kBulkThreads, 1) linear_bulk_gated_##rows##_bf16(GatedLinearArgs args) { \
    linear_bulk<bulk_rows(rows), true>(args.product, args.out);                                              \
  }
#endif
PAGODA_BULK_KERNEL(64)
PAGODA_BULK_KERNEL(128)
PAGODA_BULK_KERNEL(256)
#undef PAGODA_BULK_KERNEL

}  // namespace pagoda::device::kernels
