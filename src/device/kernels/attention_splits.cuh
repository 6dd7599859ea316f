#pragma once
// Shared parts of the forms of attention by tiles (attention_tiles.cuh, attention_walk.cuh,
// attention_bulk.cuh): the rows of a tile and the tokens that they see, the copies of keys and values into
// shared memory, and a split's scores, softmax and weighted sum of values.
#include "device/kernels/attention.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/tile_words.cuh"
#include "device/kernels/weight_fragments.cuh"

namespace pagoda::device::kernels {

// `padded`: the head's size, rounded up to one that is compiled.
template <int padded>
struct TileSizes {
  static constexpr int kStride = tile_stride(padded);
  static constexpr int kColumns = padded < 128 ? padded : 128;  // columns of values that a prefill warp sums
  static constexpr int kWarpsOfRows = kTileWarps * kColumns / padded;
  static constexpr int kHalf = kSplitTokens * kStride;  // elements of a split's keys, and of its values
  static_assert(16 * kWarpsOfRows == tile_rows(padded) && kSplitTokens == 16 * kTileWarps);
};

// A thread's part of the warp's 16 rows: two of them, lane / 4 and lane / 4 + 8; in each 8 columns, 2 * (lane
// % 4) and the next.
struct TileRow {
  bool there;
  int row, head, position, first;
  float slope;
};

// The sums of a thread's two rows: values[n] for the n-th 8 columns, of the first row, then of the second.
template <int padded>
struct TileSums {
  float largest[2], sum[2];
  float values[TileSizes<padded>::kColumns / 8][4];
};

// The first token that a row at `position` sees.
__device__ __forceinline__ int first_seen(const AttentionArgs& args, int position) {
  if (args.window <= 0) return 0;
  if (args.chunks != 0) return position / args.window * args.window;
  return position >= args.window ? position - args.window + 1 : 0;
}

// A tile: `count` of the launch's rows from `begin` on, which belong to one sequence and are ordered by
// position. The tokens that any of them sees are in [low, high], and those that all of them see are in
// [all_from, all_to]. The cache has tokens up to `stored`: `high`, or one less if the launch makes the last
// one (own_tile()).
struct TileOfRows {
  int begin, count, kv_head, low, high, all_from, all_to, stored;
  const int* table;
  __device__ __forceinline__ bool all_see_split(int token) const {
    return token >= all_from && token + kSplitTokens - 1 <= all_to;
  }
};

__device__ __forceinline__ TileOfRows tile_of_rows(const AttentionArgs& args, int begin, int count,
                                                   int kv_head) {
  const int row = args.rows[begin], first = args.positions[row],
            last = args.positions[args.rows[begin + count - 1]];
  return {.begin = begin,
          .count = count,
          .kv_head = kv_head,
          .low = first_seen(args, first),
          .high = last,
          .all_from = first_seen(args, last),
          .all_to = first,
          .stored = last,
          .table = args.block_tables + args.tables[row]};
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

// Elements of a cache in 16 bytes; and from a key's head to the value's of the same head.
template <class T>
inline constexpr int kPieceElements = 16 / static_cast<int>(sizeof(T));
template <class T>
__device__ __forceinline__ std::int64_t values_behind(const CacheArgs& cache) {
  return static_cast<std::int64_t>(cache.num_kv_heads) * cache.block_size *
         (slot_elements<T>(cache) + kScaleElements<T>);
}

// Element offsets of the keys of `lines` tokens from `token` on, which a warp is about to copy: lane i has
// those of tokens i and i + 32. kUnseen: no row sees the token, and nothing is read. kOwnLine: the block
// itself makes the line, if it `owns` any.
constexpr std::int64_t kUnseen = -1, kOwnLine = -2;
template <int lines, bool owns = false>
struct SplitLines {
  std::int64_t keys[(lines + 31) / 32];
};

// Likewise for the first of eight tokens from `token` on, which are in one block.
template <class T>
__device__ __forceinline__ std::int64_t find_eight(const AttentionArgs& args, const TileOfRows& tile,
                                                   int token) {
  const CacheArgs& cache = args.cache;
  if (token + 7 < tile.low || token > tile.high) return -1;
  return cache_slot<T>(cache, tile.table[token / cache.block_size], false, tile.kv_head,
                       token % cache.block_size) -
         static_cast<T*>(cache.cache);
}

template <int lines, class T = Bf16, bool owns = false>
__device__ __forceinline__ SplitLines<lines, owns> find_lines(const AttentionArgs& args,
                                                              const TileOfRows& tile, int token) {
  const CacheArgs& cache = args.cache;
  const int lane = static_cast<int>(threadIdx.x % 32);
  SplitLines<lines, owns> found;
#pragma unroll
  for (int i = 0; i < (lines + 31) / 32; ++i) {
    const int at = token + 32 * i + lane;
    found.keys[i] = kUnseen;
    if (32 * i + lane >= lines || at < tile.low || at > tile.high) continue;
    if (owns && at > tile.stored) {
      found.keys[i] = kOwnLine;
      continue;
    }
    const int block = tile.table[at / cache.block_size];
    found.keys[i] = cache_slot<T>(cache, block, false, tile.kv_head, at % cache.block_size) -
                    static_cast<T*>(cache.cache);
  }
  return found;
}

// Starts the warp's copies of the keys, or of the values, of `lines` of those tokens, starting with their
// token `begin`, to lines `stride` elements apart. Tokens that no row sees are zero, and so are elements that
// a head lacks in its last 16.
template <int padded, int lines, int stride, class T, int all, bool owns>
__device__ __forceinline__ void copy_lines(const AttentionArgs& args, const SplitLines<all, owns>& found,
                                           int begin, bool values, T* to) {
  constexpr int kElements = kPieceElements<T>, kPieces = padded / kElements, kAtOnce = 32 / kPieces;
  const CacheArgs& cache = args.cache;
  const auto* const from = static_cast<const T*>(cache.cache) + (values ? values_behind<T>(cache) : 0);
  const int lane = static_cast<int>(threadIdx.x % 32), column = kElements * (lane % kPieces);
#pragma unroll
  for (int first = 0; first < lines; first += kAtOnce) {
    const int line = first + lane / kPieces;
    const std::int64_t key = __shfl_sync(kAllLanes, found.keys[(begin + first) / 32], (begin + line) % 32);
    const bool there = key >= 0 && column < cache.head_size;
    if (column < (cache.head_size + 15) / 16 * 16 && !(owns && key == kOwnLine))
      copy_async(to + line * stride + column, from + (there ? key + column : 0), there);
  }
}
template <int padded, int lines, int all, bool owns>
__device__ __forceinline__ void copy_lines(const AttentionArgs& args, const SplitLines<all, owns>& found,
                                           int begin, bool values, Bf16* to) {
  copy_lines<padded, lines, TileSizes<padded>::kStride>(args, found, begin, values, to);
}

// The maximum, or the sum, over the four lanes that share a row.
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

// Products of the warp's queries with the keys of the n-th 16 tokens of a split.
using SplitScores = float[kSplitTokens / 8][4];
template <int padded>
__device__ __forceinline__ void multiply_16_keys(const AttentionArgs& args,
                                                 const std::uint32_t (&query)[padded / 16][4],
                                                 const Bf16* keys, int n, SplitScores& scores) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int low8 = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[2 * n][i] = scores[2 * n + 1][i] = 0;
#pragma unroll
  for (int k = 0; k < padded / 16; ++k) {
    if (16 * k >= args.cache.head_size) continue;
    std::uint32_t pairs[4];
    load_matrices<false>(keys + (third + low8) * TileSizes<padded>::kStride + 16 * k + second, pairs);
    multiply_matrices(scores[2 * n], query[k], {pairs[0], pairs[1]});
    multiply_matrices(scores[2 * n + 1], query[k], {pairs[2], pairs[3]});
  }
}
// Likewise for all keys of a split.
template <int padded>
__device__ __forceinline__ void multiply_keys(const AttentionArgs& args,
                                              const std::uint32_t (&query)[padded / 16][4], const Bf16* keys,
                                              SplitScores& scores) {
#pragma unroll
  for (int n = 0; n < kSplitTokens / 16; ++n)
    multiply_16_keys<padded>(args, query, keys + 16 * n * TileSizes<padded>::kStride, n, scores);
}

// 2^x as the instruction computes it: within two units in the last place, which bfloat16 does not show.
__device__ __forceinline__ float power_of_two(float x) {
#ifdef __CUDACC__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

// The scales of a split's keys and values in a cache of 8 bits: x = scale * code.
struct SplitScales {
  float keys[kSplitTokens], values[kSplitTokens];
};

// A split's softmax: weights of its tokens in bfloat16, as the left matrices of products. `whole`: all rows
// see all of its tokens. `scales`: the scales of codes, to be applied to scores and values; or null.
struct SplitWeights {
  float largest[2], sum[2];
  std::uint32_t weights[kSplitTokens / 16][4];
};
__device__ __forceinline__ SplitWeights weigh_scores(const AttentionArgs& args, const TileRow (&rows)[2],
                                                     int token, bool whole, SplitScores& scores,
                                                     const SplitScales* scales = nullptr) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  constexpr float kLog2E = 1.44269504f;
  SplitWeights out;
  if (scales != nullptr)
#pragma unroll
    for (int n = 0; n < kSplitTokens / 8; ++n) {
      const auto two = load_whole<TwoFloats>(scales->keys + 8 * n + 2 * (lane % 4));
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] *= two.at[i % 2];
    }
  // Scores without any other change are scaled together with the power of two that gives their weights.
  const bool scaled = args.softcap > 0 || args.slopes != nullptr || !(args.scale > 0);
  const float unit = scaled ? 1 : args.scale, power = unit * kLog2E;
  const int own = token + 2 * (lane % 4);
  if (scaled) {
#pragma unroll
    for (int i = 0; i < kSplitTokens / 2; ++i) scores[i / 4][i % 4] *= args.scale;
    if (args.softcap > 0)
#pragma unroll
      for (int i = 0; i < kSplitTokens / 2; ++i)
        scores[i / 4][i % 4] = args.softcap * tanhf(scores[i / 4][i % 4] / args.softcap);
    if (args.slopes != nullptr)
#pragma unroll
      for (int i = 0; i < kSplitTokens / 2; ++i) {
        const TileRow& row = rows[i % 4 / 2];
        scores[i / 4][i % 4] -= row.slope * static_cast<float>(row.position - (own + 8 * (i / 4) + i % 2));
      }
  }
  if (!whole)
#pragma unroll
    for (int i = 0; i < kSplitTokens / 2; ++i) {
      const TileRow& row = rows[i % 4 / 2];
      const int at = own + 8 * (i / 4) + i % 2;
      if (at < row.first || at > row.position) scores[i / 4][i % 4] = -INFINITY;
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = -INFINITY;
#pragma unroll
    for (int i = 0; i < kSplitTokens / 4; ++i) top = fmaxf(top, scores[i / 2][2 * h + i % 2]);
    top = largest_of_row(top);
    out.largest[h] = top * unit;
    out.sum[h] = 0;
    const float base = top == -INFINITY ? 0 : top * power;  // the row sees no token of it
#pragma unroll
    for (int i = 0; i < kSplitTokens / 4; ++i) {
      float& score = scores[i / 2][2 * h + i % 2];
      score = power_of_two(fmaf(score, power, -base));
    }
  }
#pragma unroll
  for (int k = 0; k < kSplitTokens / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = scores[2 * k + i / 2] + 2 * (i % 2);
      out.weights[k][i] = pack(pair[0], pair[1]);
      out.sum[i % 2] += low_of(out.weights[k][i]) + high_of(out.weights[k][i]);
      if (scales == nullptr) continue;
      const auto two = load_whole<TwoFloats>(scales->values + 16 * k + 8 * (i / 2) + 2 * (lane % 4));
      out.weights[k][i] = pack(low_of(out.weights[k][i]) * two.at[0], high_of(out.weights[k][i]) * two.at[1]);
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) out.sum[h] = sum_of_row(out.sum[h]);
  return out;
}
// Stores the last two numbers that merge_splits() needs from a split.
__device__ __forceinline__ void store_softmax(const AttentionArgs& args, const TileRow (&rows)[2], int split,
                                              const SplitWeights& weights) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (rows[h].there && threadIdx.x % 4 == 0) {
      float* const partial = partial_of(args, rows[h].head, split);
      partial[args.cache.head_size] = weights.largest[h];
      partial[args.cache.head_size + 1] = weights.sum[h];
    }
}

// Adds 16 columns of the values of 16 tokens, which begin at `values`, multiplied by their weights.
template <int padded>
__device__ __forceinline__ void add_16_values(const std::uint32_t (&weights)[4], const Bf16* values,
                                              float (&first)[4], float (&second)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::uint32_t pairs[4];
  load_matrices<true>(values + lane % 16 * TileSizes<padded>::kStride + lane / 16 * 8, pairs);
  multiply_matrices(first, weights, {pairs[0], pairs[1]});
  multiply_matrices(second, weights, {pairs[2], pairs[3]});
}
// The weighted sums of 16 columns of a split's values, which begin at `values`.
template <int padded>
__device__ __forceinline__ void multiply_values(const SplitWeights& weights, const Bf16* values,
                                                float (&part)[2][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) part[0][i] = part[1][i] = 0;
#pragma unroll
  for (int k = 0; k < kSplitTokens / 16; ++k)
    add_16_values<padded>(weights.weights[k], values + 16 * k * TileSizes<padded>::kStride, part[0], part[1]);
}

// attend(args, ...), compiled once more for heads of exactly `padded` elements: without the branches for
// smaller heads, loads run ahead of the products that use them.
#define PAGODA_OF_KNOWN_SIZE(padded, attend, ...)     \
  if (args.cache.head_size == padded) {               \
    AttentionArgs known = args;                       \
    known.cache.head_size = padded;                   \
    attend<padded>(known __VA_OPT__(, ) __VA_ARGS__); \
  } else {                                            \
    attend<padded>(args __VA_OPT__(, ) __VA_ARGS__);  \
  }

}  // namespace pagoda::device::kernels
