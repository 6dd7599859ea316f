#pragma once
// Paged attention by tiles of matrix products, bfloat16, for decode and for chunked prefill: sm_80 and up. A
// block of kTileWarps warps takes rows of one sequence and the query heads of one KV head, packed one behind
// the other (row i of a tile: its token i / group, query head i % group), 16 of them a warp. It goes through
// the context in tiles of tokens that begin at multiples of their size, whose keys and values come by
// asynchronous copies while the tile before is computed. Splits of kSplitTokens are summed up by themselves
// as in attention.cuh: decode spreads them over blocks (then merge_splits), prefill adds them one after the
// other.
//
// A row of a product depends on its own row of the left matrix alone, and a tile of which a row sees nothing
// leaves that row as it is, to the bit (weights of zero, factors of one). So a token's bits do not depend on
// what else is in its tile, on the chunk, or on which of the two kernels computed it. That a product's rows
// do not see each other is true of the documented operation; kernel tests ask each device for it. Queries and
// weights are rounded to bfloat16 on their way into the products, so that results are not the plain kernels'
// bits. Heads: multiples of 8 up to 256. Source: FlashAttention-2 (Dao 2023); fixed splits: Flash-Decoding.
#include "device/kernels/attention.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/tile_words.cuh"

namespace pagoda::device::kernels {

// `padded`: the head's size, made larger to one that is compiled.
template <int padded>
struct TileSizes {
  static constexpr int kTokens = tile_tokens(padded), kStride = tile_stride(padded);
  static constexpr int kColumns = padded < 128 ? padded : 128;  // columns of values that a warp sums up
  static constexpr int kWarpsOfRows = kTileWarps * kColumns / padded;
  static constexpr int kStageElements = 2 * kTokens * kStride;  // keys, then values
  static_assert(kSplitTokens % kTokens == 0 && 16 * kWarpsOfRows == tile_rows(padded));
};

// A thread's part of the warp's 16 rows: two of them, lane / 4 and 8 further; of 8 columns, 2 * (lane % 4)
// and the next: sums[n] of the n-th 8 columns are those of the first row, then those of the second.
struct TileRow {
  bool there;
  int row, head, position, first;
  float slope;
};

template <int padded>
struct TileSums {
  float largest[2], sum[2];
  float values[TileSizes<padded>::kColumns / 8][4];
};

template <int padded>
__device__ __forceinline__ void begin_tiles(TileSums<padded>& state) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    state.largest[h] = -INFINITY;
    state.sum[h] = 0;
  }
#pragma unroll
  for (int n = 0; n < TileSizes<padded>::kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) state.values[n][i] = 0;
}

// The first token that a row at `position` sees.
__device__ __forceinline__ int first_seen(const AttentionArgs& args, int position) {
  if (args.window <= 0) return 0;
  if (args.chunks != 0) return position / args.window * args.window;
  return position >= args.window ? position - args.window + 1 : 0;
}

// A tile: `count` of the launch's rows from `begin` on, which are of one sequence and in the order of their
// positions; what they see lies in [low, high].
struct TileOfRows {
  int begin, count, kv_head, low, high;
  const int* table;
};

__device__ __forceinline__ TileOfRows tile_of_rows(const AttentionArgs& args, int begin, int count) {
  const int row = args.rows[begin];
  return {begin,
          count,
          static_cast<int>(blockIdx.y),
          first_seen(args, args.positions[row]),
          args.positions[args.rows[begin + count - 1]],
          args.block_tables + static_cast<std::int64_t>(args.sequences[row]) * args.table_width};
}

template <int padded>
__device__ __forceinline__ int first_row_of_warp() {
  return 16 * (static_cast<int>(threadIdx.x / 32) % TileSizes<padded>::kWarpsOfRows);
}
template <int padded>
__device__ __forceinline__ int first_column_of_warp() {
  return static_cast<int>(threadIdx.x / 32) / TileSizes<padded>::kWarpsOfRows * TileSizes<padded>::kColumns;
}

__device__ __forceinline__ TileRow tile_row(const AttentionArgs& args, const TileOfRows& tile, int packed) {
  const int group = args.num_query_heads / args.cache.num_kv_heads;
  if (packed >= tile.count * group) return {false, 0, 0, -1, 0, 0};
  const int row = args.rows[tile.begin + packed / group], head = tile.kv_head * group + packed % group;
  const int position = args.positions[row];
  return {
      true, row, head, position, first_seen(args, position), args.slopes != nullptr ? args.slopes[head] : 0};
}

template <int padded>
__device__ __forceinline__ void load_queries(const AttentionArgs& args, const TileRow (&rows)[2],
                                             std::uint32_t (&query)[padded / 16][4]) {
  const int size = args.cache.head_size, lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t width =
      static_cast<std::int64_t>(args.num_query_heads + 2 * args.cache.num_kv_heads) * size;
#pragma unroll
  for (int k = 0; k < padded / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const TileRow& at = rows[i % 2];
      query[k][i] = 0;
      if (!at.there || 16 * k + 8 * (i / 2) >= size) continue;
      const float* const from =
          args.qkv + at.row * width + at.head * size + 16 * k + 8 * (i / 2) + 2 * (lane % 4);
      query[k][i] = pack(from[0], from[1]);
    }
}

// Starts the copies of the tile of tokens that begins at `token`. What no row sees is not read: zeros; and so
// is what a head has not of its last 16 elements.
template <int padded>
__device__ __forceinline__ void copy_tile(const AttentionArgs& args, const TileOfRows& tile, int token,
                                          Bf16* stage) {
  using Sizes = TileSizes<padded>;
  const CacheArgs& cache = args.cache;
  const int pieces = (cache.head_size + 15) / 16 * 2;
  for (int i = static_cast<int>(threadIdx.x); i < Sizes::kTokens * pieces; i += 32 * kTileWarps) {
    const int line = i / pieces, column = 8 * (i % pieces), at = token + line;
    const bool there = at >= tile.low && at <= tile.high && column < cache.head_size;
    const int block = there ? tile.table[at / cache.block_size] : 0, slot = at % cache.block_size;
    Bf16* const to = stage + line * Sizes::kStride + column;
    copy_async(to, cache_slot<Bf16>(cache, block, false, tile.kv_head, slot) + column, there);
    copy_async(to + Sizes::kTokens * Sizes::kStride,
               cache_slot<Bf16>(cache, block, true, tile.kv_head, slot) + column, there);
  }
}

// The largest, or the sum, of the four lanes that share a row.
__device__ __forceinline__ float largest_of_row(float x) {
  for (int other = 1; other < 4; other *= 2) {
    const float there = __shfl_xor_sync(kAllLanes, x, other);
    x = there > x ? there : x;
  }
  return x;
}
__device__ __forceinline__ float sum_of_row(float x) {
  for (int other = 1; other < 4; other *= 2) x += __shfl_xor_sync(kAllLanes, x, other);
  return x;
}

// Adds the tokens from `token` on, whose keys and values are in `stage`, to the warp's rows.
template <int padded>
__device__ __forceinline__ void attend_tile(const AttentionArgs& args, const TileRow (&rows)[2],
                                            const std::uint32_t (&query)[padded / 16][4], int token,
                                            const Bf16* stage, TileSums<padded>& state) {
  using Sizes = TileSizes<padded>;
  const int size = args.cache.head_size, lane = static_cast<int>(threadIdx.x % 32);
  const int low8 = lane % 8, second = lane / 8 % 2 * 8,
            third = lane / 16 * 8;  // third of the matrices that lanes name
  float scores[Sizes::kTokens / 8][4] = {};
#pragma unroll
  for (int n = 0; n < Sizes::kTokens / 16; ++n)
#pragma unroll
    for (int k = 0; k < padded / 16; ++k) {
      if (16 * k >= size) continue;
      std::uint32_t keys[4];
      load_matrices<false>(stage + (16 * n + third + low8) * Sizes::kStride + 16 * k + second, keys);
      multiply_matrices(scores[2 * n], query[k], {keys[0], keys[1]});
      multiply_matrices(scores[2 * n + 1], query[k], {keys[2], keys[3]});
    }

  float keep[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = state.largest[h];
#pragma unroll
    for (int i = 0; i < Sizes::kTokens / 4; ++i) {
      float& score = scores[i / 2][2 * h + i % 2];
      const int at = token + 8 * (i / 2) + 2 * (lane % 4) + i % 2;
      score *= args.scale;
      if (args.softcap > 0) score = args.softcap * tanhf(score / args.softcap);
      score -= rows[h].slope * static_cast<float>(rows[h].position - at);
      if (at < rows[h].first || at > rows[h].position) score = -INFINITY;
      top = score > top ? score : top;
    }
    top = largest_of_row(top);
    const float base = top == -INFINITY ? 0 : top;  // a row that has seen nothing yet
    keep[h] = expf(state.largest[h] - base);
    state.largest[h] = top;
    state.sum[h] *= keep[h];
#pragma unroll
    for (int i = 0; i < Sizes::kTokens / 4; ++i) {
      float& score = scores[i / 2][2 * h + i % 2];
      score = expf(score - base);
    }
  }
#pragma unroll
  for (int n = 0; n < Sizes::kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) state.values[n][i] *= keep[i / 2];

  const Bf16* const values = stage + Sizes::kTokens * Sizes::kStride + first_column_of_warp<padded>();
#pragma unroll
  for (int k = 0; k < Sizes::kTokens / 16; ++k) {
    std::uint32_t weights[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = scores[2 * k + i / 2] + 2 * (i % 2);
      weights[i] = pack(pair[0], pair[1]);
      state.sum[i % 2] += low_of(weights[i]) + high_of(weights[i]);
    }
#pragma unroll
    for (int n = 0; n < Sizes::kColumns / 16; ++n) {
      if (first_column_of_warp<padded>() + 16 * n >= size) continue;
      std::uint32_t pairs[4];
      load_matrices<true>(values + (16 * k + second + low8) * Sizes::kStride + 16 * n + third, pairs);
      multiply_matrices(state.values[2 * n], weights, {pairs[0], pairs[1]});
      multiply_matrices(state.values[2 * n + 1], weights, {pairs[2], pairs[3]});
    }
  }
}

// All tokens in [from, behind) of what the tile sees, split by split; `end` takes each split's sums. Whole
// block.
template <int padded, class End>
__device__ __forceinline__ void attend_tokens(const AttentionArgs& args, const TileOfRows& tile,
                                              const TileRow (&rows)[2], int from, int behind,
                                              const End& end) {
  using Sizes = TileSizes<padded>;
  PAGODA_SHARED(Bf16, shared);
  const int group = args.num_query_heads / args.cache.num_kv_heads;
  const bool has_rows = first_row_of_warp<padded>() < tile.count * group;
  std::uint32_t query[padded / 16][4];
  load_queries<padded>(args, rows, query);
  TileSums<padded> state;
  begin_tiles(state);
  int token = from / Sizes::kTokens * Sizes::kTokens, stage = 0;
  copy_tile<padded>(args, tile, token, shared);
  copies_commit();
  for (; token < behind; token += Sizes::kTokens) {
    const int next = token + Sizes::kTokens;
    if (next < behind) copy_tile<padded>(args, tile, next, shared + (1 - stage) * Sizes::kStageElements);
    copies_commit();
    copies_wait<1>();
    __syncthreads();
    if (has_rows) {
      attend_tile<padded>(args, rows, query, token, shared + stage * Sizes::kStageElements, state);
      if (next >= behind || next % kSplitTokens == 0) {
#pragma unroll
        for (int h = 0; h < 2; ++h) state.sum[h] = sum_of_row(state.sum[h]);
        end(state);
        begin_tiles(state);
      }
    }
    __syncthreads();  // the stage is written again
    stage = 1 - stage;
  }
}

template <int padded>
__device__ __forceinline__ void rows_of_thread(const AttentionArgs& args, const TileOfRows& tile,
                                               TileRow (&rows)[2]) {
  const int first = first_row_of_warp<padded>() + static_cast<int>(threadIdx.x % 32 / 4);
  rows[0] = tile_row(args, tile, first);
  rows[1] = tile_row(args, tile, first + 8);
}

// Calls each(h, n, i, column) for every element of this thread's values that is there.
template <int padded, class Each>
__device__ __forceinline__ void for_values(const AttentionArgs& args, const TileRow (&rows)[2],
                                           const Each& each) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < TileSizes<padded>::kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = first_column_of_warp<padded>() + 8 * n + 2 * (lane % 4) + i % 2;
      if (rows[i / 2].there && column < args.cache.head_size) each(i / 2, n, i, column);
    }
}

// A tile is one row. grid: (rows, KV heads, splits); block: 32 * kTileWarps; shared: tile_shared_bytes().
// What they leave for merge_splits is where attend_splits leaves it.
template <int padded>
__device__ __forceinline__ void attend_tile_splits(const AttentionArgs& args) {
  const TileOfRows tile = tile_of_rows(args, static_cast<int>(blockIdx.x), 1);
  const int split = static_cast<int>(blockIdx.z), begin_at = split * kSplitTokens,
            end_at = begin_at + kSplitTokens;
  if (begin_at > tile.high || end_at <= tile.low) return;
  TileRow rows[2];
  rows_of_thread<padded>(args, tile, rows);
  const int from = tile.low > begin_at ? tile.low : begin_at,
            behind = tile.high < end_at ? tile.high + 1 : end_at;
  attend_tokens<padded>(args, tile, rows, from, behind, [&](const TileSums<padded>& part) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (rows[h].there && threadIdx.x % 4 == 0 && first_column_of_warp<padded>() == 0) {
        float* const partial = partial_of(args, rows[h].head, split);
        partial[0] = part.largest[h];
        partial[1] = part.sum[h];
      }
    for_values<padded>(args, rows, [&](int h, int n, int i, int column) {
      partial_of(args, rows[h].head, split)[2 + column] = part.values[n][i];
    });
  });
}

// Tile t is rows [tiles[t], tiles[t + 1]) of the launch's. grid: (tiles, KV heads); block and shared: as
// above.
template <int padded>
__device__ __forceinline__ void attend_tiles(const AttentionArgs& args) {
  const int begin_at = args.tiles[blockIdx.x];
  const TileOfRows tile = tile_of_rows(args, begin_at, args.tiles[blockIdx.x + 1] - begin_at);
  TileRow rows[2];
  rows_of_thread<padded>(args, tile, rows);
  TileSums<padded> total;
  begin_tiles(total);
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (args.sinks != nullptr && rows[h].there) {
      total.largest[h] = args.sinks[rows[h].head];
      total.sum[h] = 1;
    }
  attend_tokens<padded>(args, tile, rows, tile.low, tile.high + 1, [&](const TileSums<padded>& part) {
    // As add() of attention.cuh, which merge_splits calls.
    float keep[2], take[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float top = total.largest[h] > part.largest[h] ? total.largest[h] : part.largest[h];
      const bool is_part = part.sum[h] != 0;
      keep[h] = is_part ? expf(total.largest[h] - top) : 1.0f;
      take[h] = is_part ? expf(part.largest[h] - top) : 0.0f;
      if (is_part) total.largest[h] = top;
      if (is_part) total.sum[h] = total.sum[h] * keep[h] + part.sum[h] * take[h];
    }
    for_values<padded>(args, rows, [&](int h, int n, int i, int) {
      if (part.sum[h] != 0) total.values[n][i] = total.values[n][i] * keep[h] + part.values[n][i] * take[h];
    });
  });
  for_values<padded>(args, rows, [&](int h, int n, int i, int column) {
    args.out[(static_cast<std::int64_t>(rows[h].row) * args.num_query_heads + rows[h].head) *
                 args.cache.head_size +
             column] = quotient(total.values[n][i], total.sum[h]);
  });
}

#define PAGODA_TILE_KERNELS(padded)                                                                    \
  __global__ void __launch_bounds__(32 * kTileWarps) attend_tile_splits_##padded(AttentionArgs args) { \
    attend_tile_splits<padded>(args);                                                                  \
  }                                                                                                    \
  __global__ void __launch_bounds__(32 * kTileWarps) attend_tiles_##padded(AttentionArgs args) {       \
    attend_tiles<padded>(args);                                                                        \
  }
PAGODA_TILE_KERNELS(64)
PAGODA_TILE_KERNELS(128)
PAGODA_TILE_KERNELS(256)
#undef PAGODA_TILE_KERNELS

}  // namespace pagoda::device::kernels
