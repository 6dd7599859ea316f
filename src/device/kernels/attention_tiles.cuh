#pragma once
// Paged attention by tiles of matrix products, bfloat16, for decode and for chunked prefill: sm_80 and up. A
// tile has rows of one sequence and the query heads of one KV head, packed (row i of a tile: its token i /
// group, query head i % group), 16 rows per warp. The context is divided into splits of kSplitTokens at
// multiples of that, each with its own softmax: its largest score, weights rounded to bfloat16, and a chain
// over its tokens. Splits are added in ascending order by merge() of attention.cuh.
//   decode   one warp per split of one row, which copies its own split; the row's last block adds them. If
//   there
//            are enough rows, a block walks a whole context instead: attention_walk.cuh
//   prefill  a block of kTileWarps warps goes through the splits; the copies of the next split's keys and
//            values are in flight while it computes
//
// A row of a product depends only on its own row of the left matrix, and a split of which a row sees nothing
// does not change that row. So a token's bits do not depend on the other rows in its tile, on the chunk, or
// on which of the two kernels computed it. That the rows of a product are independent follows from the
// documented operation; kernel tests check it on each device. Queries and weights are rounded to bfloat16
// before the products, so results differ from the bits of the plain kernels. Heads: multiples of 8 up to 256.
// Source: FlashAttention-2 (Dao 2023); fixed splits: Flash-Decoding.
#include "device/kernels/attention_eights.cuh"

namespace pagoda::device::kernels {

// A warp's split, in shared memory of tile_splits_bytes(): its keys and its values; and the block's queries.
template <int padded>
struct SplitPlace {
  int split, token;
  bool mine;  // the row sees some of its tokens
  Bf16 *keys, *values, *queries;
};
template <int padded>
__device__ __forceinline__ SplitPlace<padded> split_place(const TileOfRows& tile, int warp) {
  PAGODA_SHARED(Bf16, shared);
  const int split = static_cast<int>(blockIdx.z) * split_warps(padded) + warp, token = split * kSplitTokens;
  Bf16* const keys = shared + warp * 2 * TileSizes<padded>::kHalf;
  return {.split = split,
          .token = token,
          .mine = token <= tile.high && token + kSplitTokens > tile.low,
          .keys = keys,
          .values = keys + TileSizes<padded>::kHalf,
          .queries = shared + split_warps(padded) * 2 * TileSizes<padded>::kHalf};
}

// Starts a warp's copies, and prepares the block's heads in the meantime.
template <int padded>
__device__ __forceinline__ void begin_tile_split(const AttentionArgs& args, const TileOfRows& tile) {
  const auto place = split_place<padded>(tile, static_cast<int>(threadIdx.x / 32));
  if (place.mine) {
    const auto lines = find_lines<kSplitTokens, Bf16, true>(args, tile, place.token);
    copy_lines<padded, kSplitTokens>(args, lines, 0, false, place.keys);
    copies_commit();
    copy_lines<padded, kSplitTokens>(args, lines, 0, true, place.values);
    copies_commit();
  }
  const int own_warp = tile.high / kSplitTokens - static_cast<int>(blockIdx.z) * split_warps(padded);
  Bf16* const own =
      split_place<padded>(tile, own_warp).keys + tile.high % kSplitTokens * TileSizes<padded>::kStride;
  put_heads<padded, Bf16>(
      args, tile, own_warp < split_warps(padded), place.queries,
      {.key = {own, nullptr}, .value = {own + TileSizes<padded>::kHalf, nullptr}, .floats = nullptr});
  __syncthreads();
}

// One warp per split of a row. The warps store their partial results where attend_splits does.
template <int padded>
__device__ __forceinline__ void attend_tile_split(const AttentionArgs& args, const TileOfRows& tile) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto [split, token, mine, keys, values, queries] =
      split_place<padded>(tile, static_cast<int>(threadIdx.x / 32));
  if (!mine) return;
  const TileRow rows[2] = {tile_row(args, tile, lane / 4), tile_row(args, tile, lane / 4 + 8)};
  std::uint32_t query[padded / 16][4];
  load_query_matrices<padded>(queries, lane, query);
  copies_wait<1>();
  __syncwarp();
  SplitScores scores;
  multiply_keys<padded>(args, query, keys, scores);
  const SplitWeights weights = weigh_scores(args, rows, token, tile.all_see_split(token), scores);
  copies_wait<0>();
  __syncwarp();
  store_softmax(args, rows, split, weights);
#pragma unroll
  for (int n = 0; n < padded / 16; ++n) {
    if (16 * n >= args.cache.head_size) continue;
    float part[2][4];
    multiply_values<padded>(weights, values + 16 * n, part);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i % 2, column = 16 * n + 8 * (i / 2) + 2 * (lane % 4);
      if (!rows[h].there || column >= args.cache.head_size) continue;
      store_whole(partial_of(args, rows[h].head, split) + column,
                  TwoFloats{part[i / 2][2 * h], part[i / 2][2 * h + 1]});
    }
  }
}

// Tile t has rows [tiles[t], tiles[t + 1]) of the launch's rows. grid: (tiles, KV heads); block: 32 *
// kTileWarps; shared: tile_shared_bytes(); for 8 bits eight_tile_bytes(), which adds codes of a split and
// scales.
template <int padded, class T = Bf16>
__device__ __forceinline__ void attend_tiles(const AttentionArgs& args) {
  using Sizes = TileSizes<padded>;
  PAGODA_SHARED(Bf16, shared);
  Bf16* const keys = shared;
  Bf16* const values = shared + Sizes::kHalf;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int begin_at = args.tiles[blockIdx.x];
  const TileOfRows tile =
      tile_of_rows(args, begin_at, args.tiles[blockIdx.x + 1] - begin_at, static_cast<int>(blockIdx.y));
  const int first_row = 16 * (warp % Sizes::kWarpsOfRows),
            first_column = warp / Sizes::kWarpsOfRows * Sizes::kColumns;
  const int group = args.num_query_heads / args.cache.num_kv_heads, size = args.cache.head_size;
  const bool has_rows = first_row < tile.count * group;
  const TileRow rows[2] = {tile_row(args, tile, first_row + lane / 4),
                           tile_row(args, tile, first_row + lane / 4 + 8)};
  // Each warp copies 16 tokens of a split.
  const int own = 16 * warp;
  T* const codes = reinterpret_cast<T*>(shared + 2 * Sizes::kHalf) + 2 * own * padded;
  auto& scales = *reinterpret_cast<SplitScales*>(reinterpret_cast<T*>(shared + 2 * Sizes::kHalf) +
                                                 2 * kSplitTokens * padded);
  const auto copy = [&](const SplitLines<16>& lines, bool is_value) {
    if constexpr (kEights<T>)
      copy_lines<padded, 16, padded>(args, lines, 0, is_value, codes + (is_value ? 16 * padded : 0));
    else
      copy_lines<padded, 16>(args, lines, 0, is_value, (is_value ? values : keys) + own * Sizes::kStride);
    copies_commit();
  };
  const auto widen = [&](bool is_value) {
    if constexpr (kEights<T>)
      widen_piece<padded>(args.cache, codes + (is_value ? 16 * padded : 0),
                          (is_value ? values : keys) + own * Sizes::kStride);
  };
  int token = tile.low / kSplitTokens * kSplitTokens;
  SplitLines<16> lines = find_lines<16, T>(args, tile, token + own);
  LineScales<16, T> of_lines, ahead;
  ahead.find(args, tile, token + own);
  copy(lines, false);
  copy(lines, true);
  std::uint32_t query[padded / 16][4];
  load_queries<padded>(args, rows, query);
  TileSums<padded> total;
#pragma unroll
  for (int h = 0; h < 2; ++h) begin_total(args, rows[h].head, total.largest[h], total.sum[h]);
#pragma unroll
  for (int n = 0; n < Sizes::kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) total.values[n][i] = 0;
  for (; token <= tile.high; token += kSplitTokens) {
    const bool last = token + kSplitTokens > tile.high;
    of_lines = ahead;
    if (!last) {
      lines = find_lines<16, T>(args, tile, token + kSplitTokens + own);
      ahead.find(args, tile, token + kSplitTokens + own);
    }
    copies_wait<1>();
    widen(false);
    __syncthreads();  // all keys have arrived
    SplitScores scores_of;
    if (has_rows) multiply_keys<padded>(args, query, keys, scores_of);
    __syncthreads();  // and have been read
    if (!last) copy(lines, false);
    if (last)
      copies_wait<0>();
    else
      copies_wait<1>();
    widen(true);
    of_lines.put(scales, own);
    __syncthreads();  // all values have arrived
    if (has_rows) {
      const SplitWeights weights = weigh_scores(args, rows, token, tile.all_see_split(token), scores_of,
                                                kScaleElements<T> != 0 ? &scales : nullptr);
      Shares shares[2];
#pragma unroll
      for (int h = 0; h < 2; ++h)
        shares[h] = merge(total.largest[h], total.sum[h], weights.largest[h], weights.sum[h]);
#pragma unroll
      for (int n = 0; n < Sizes::kColumns / 16; ++n) {
        if (first_column + 16 * n >= size) continue;
        float part[2][4];
        multiply_values<padded>(weights, values + first_column + 16 * n, part);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          float& value = total.values[2 * n + i / 4][i % 4];
          value = merged(value, part[i / 4][i % 4], shares[i % 4 / 2]);
        }
      }
    }
    __syncthreads();  // and have been read
    if (!last) copy(lines, true);
  }
  const float scale = scale_of_values<T>(args);
#pragma unroll
  for (int n = 0; n < Sizes::kColumns / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int column = first_column + 8 * n + 2 * (lane % 4);
      if (!rows[h].there || column >= size) continue;
      store_attended(args, rows[h].row, rows[h].head, column,
                     TwoFloats{quotient(total.values[n][2 * h], total.sum[h], scale),
                               quotient(total.values[n][2 * h + 1], total.sum[h], scale)});
    }
}

// A block's splits of a row and KV head; the last block to finish also computes the sum of all splits. grid:
// (rows, KV heads, splits / split_warps()); block: 32 * split_warps(); shared: tile_splits_bytes() or
// eight_splits_bytes().
template <int padded, class T = Bf16>
__device__ __forceinline__ void attend_tile_splits(const AttentionArgs& args) {
  begin_kernel();
  constexpr int kTokens = split_warps(padded) * kSplitTokens;
  const int row = args.rows[blockIdx.x], first = static_cast<int>(blockIdx.z) * kTokens;
  const TileOfRows tile = own_tile<padded, T>(args);
  if (first > tile.high || first + kTokens <= tile.low || is_padding(args, row)) return;
  if constexpr (kEights<T>) {
    attend_eight_split<padded, T>(args, tile);
  } else {
    begin_tile_split<padded>(args, tile);
    if constexpr (padded <= 128) {
      PAGODA_OF_KNOWN_SIZE(padded, attend_tile_split, tile)
    } else {  // not enough registers for the other form
      attend_tile_split<padded>(args, tile);
    }
  }
  constexpr std::uint32_t kBytes =
      split_warps(padded) * (kEights<T> ? eight_shared_bytes(padded) : tile_shared_bytes(padded));
  merge_when_last(args, row, tile.low, tile.high, split_warps(padded), kBytes);
}

#define PAGODA_TILE_KERNELS(padded)                                                                    \
  __global__ void __launch_bounds__(32 * split_warps(padded), 3)                                       \
      attend_tile_splits_##padded(AttentionArgs args) {                                                \
    attend_tile_splits<padded>(args);                                                                  \
  }                                                                                                    \
  __global__ void __launch_bounds__(32 * kTileWarps) attend_tiles_##padded(AttentionArgs args) {       \
    begin_kernel();                                                                                    \
    PAGODA_OF_KNOWN_SIZE(padded, attend_tiles)                                                         \
  }                                                                                                    \
  __global__ void __launch_bounds__(32 * split_warps(padded), padded == 64 ? 4 : 5)                    \
      attend_tile_splits_##padded##_i8(AttentionArgs args) {                                           \
    attend_tile_splits<padded, Int8>(args);                                                            \
  }                                                                                                    \
  __global__ void __launch_bounds__(32 * kTileWarps) attend_tiles_##padded##_i8(AttentionArgs args) {  \
    begin_kernel();                                                                                    \
    attend_tiles<padded, Int8>(args);                                                                  \
  }                                                                                                    \
  __global__ void __launch_bounds__(32 * split_warps(padded), padded == 64 ? 4 : 5)                    \
      attend_tile_splits_##padded##_fp8(AttentionArgs args) {                                          \
    attend_tile_splits<padded, Float8>(args);                                                          \
  }                                                                                                    \
  __global__ void __launch_bounds__(32 * kTileWarps) attend_tiles_##padded##_fp8(AttentionArgs args) { \
    begin_kernel();                                                                                    \
    attend_tiles<padded, Float8>(args);                                                                \
  }
PAGODA_TILE_KERNELS(64)
PAGODA_TILE_KERNELS(128)
PAGODA_TILE_KERNELS(256)
#undef PAGODA_TILE_KERNELS

}  // namespace pagoda::device::kernels
