#pragma once
// Products of many rows by warpgroups (wgmma): linear_tiles.cuh for devices of compute capability 9.0. A
// block has tile.rows rows of x, which are already rounded and in slabs (launch_shapes.h), and tile.columns
// rows of the weights; bulk_stages.cuh describes their copies. The block's first warps are two warpgroups,
// which multiply 64 rows of the weights each by all of the block's x. The last warps copy: weights in
// bfloat16 unchanged, quantised ones through registers, where each thread widens one of the block's rows.
//
// The sum of every element of y is the chain of linear_tiles.cuh: steps of 16 of k, ascending from zero
// (warpgroup_words.cuh). So this is another form of the same product with the same bits, which is tested on
// each device.
//
// linear_bulk_gated computes the product of gate and up: in a block's weights, each eight rows of the gate
// precede the matching rows of up, so that a thread has both sums of an element. It stores the function of
// them, rounded for the next product. grid: (1, clusters of blocks); block: kBulkThreads; shared:
// product_shared_bytes().
#include "device/kernels/bulk_stages.cuh"
#include "device/kernels/rows.cuh"
#include "device/kernels/weight_lines.cuh"

namespace pagoda::device::kernels {

template <ProductTile tile>
struct BulkSizes {
  static constexpr int kEights = tile.rows / 8, kRowBytes = tile.rows * kSlabRowBytes,
                       kWeightBytes = 64 * kSlabRowBytes,  // those of a warpgroup
      kSlabs = 1, kSlabBytes = kRowBytes + kBulkWarpgroups * kWeightBytes, kStageBytes = kSlabBytes;
  // A stage becomes free when the next one has arrived: with two stages no copy would be in flight.
  static_assert(tile.depth == kSlab && tile.columns == 64 * kBulkWarpgroups && tile.cluster > 1);
  static_assert(tile.stages > 2);
  static constexpr bool kUneven = kEights > 16;  // sums need more registers than an equal share
  static_assert(kRowBytes % 1024 == 0);          // matrices begin where their swizzling does
};

template <ProductTile tile>
using BulkRing = Ring<tile.stages, BulkSizes<tile>::kStageBytes>;

// Quantised weights: a thread has a row, whose next 128 weights are loaded while the current ones are
// widened.
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
    int left = column < args.n ? row_bytes : 0;  // no line: its products are not stored
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
        if (half == 0) load();  // after the first fence, and half a unit before the next one
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

// Likewise for gated products: a thread has a gate and the matching up. `out`: as in GatedLinearArgs.
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
  cluster_wait();  // the barriers of all blocks are initialised
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
  cluster_arrive();  // a block stays until the others have received its copies
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
  PAGODA_BULK_KERNEL(rows, q5_k, Quantized5K) \
  PAGODA_BULK_KERNEL(rows, q6_k, Quantized6K)
PAGODA_BULK_KERNELS(64)
PAGODA_BULK_KERNELS(128)
PAGODA_BULK_KERNELS(256)
#undef PAGODA_BULK_KERNELS
#undef PAGODA_GATED_KERNEL
#undef PAGODA_BULK_KERNEL

}  // namespace pagoda::device::kernels
