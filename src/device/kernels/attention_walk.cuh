#pragma once
// Decode attention by tiles, for enough rows to keep the device busy: a block walks the whole context of a
// row and KV head, and no partial results go through memory, unlike in attend_tile_splits. Each warp has
// every kTileWarps-th split of the context and its own ring of pieces, 16 tokens of keys or of values each,
// which it fills and empties without waiting for other warps. Then the warps add their splits to the block's
// sum one after the other, in ascending order, by merge() of attention.cuh: the bits are those of
// attend_tile_splits and attend_tiles. Source: FlashAttention-2 (Dao 2023); the order of sums:
// attention_tiles.cuh.
#include "device/kernels/attention_eights.cuh"

namespace pagoda::device::kernels {

template <int padded, class T = Bf16>
struct WalkSizes {
  static constexpr int kStages = kEights<T> ? eight_walk_stages(padded) : walk_stages(padded);
  static constexpr int kLine = kEights<T> ? padded : TileSizes<padded>::kStride;
  static constexpr int kPiece = 16 * kLine;                 // elements
  static constexpr int kPieces = 2 * kSplitTokens / 16;     // per split: its keys, then its values
  static constexpr int kTotalStride = tile_stride(padded);  // floats from a row's sums to the next row's
  static_assert(kPieces % kStages == 0 && kStages >= 2);    // a piece's place is known at compile time
};

// The block's sums of its rows, one for each query head, in shared memory.
struct WalkTotal {
  float *largest, *sum;  // [kMaxHeadGroup]
  float* values;         // [query heads of the KV head][kTotalStride]
};

// Adds a warp's split to the block's sums. Called by one warp at a time, between barriers.
template <int padded>
__device__ __forceinline__ void add_split(const TileRow (&rows)[2], const SplitWeights& weights,
                                          const float (&part)[padded / 8][4], int size,
                                          const WalkTotal& total) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Shares shares[2];
  float largest[2], sum[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    largest[h] = total.largest[lane / 4 + 8 * h];
    sum[h] = total.sum[lane / 4 + 8 * h];
    shares[h] = merge(largest[h], sum[h], weights.largest[h], weights.sum[h]);
  }
  __syncwarp();  // the lanes of a row have read
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (!rows[h].there) continue;
    const int row = lane / 4 + 8 * h;
    if (lane % 4 == 0) {
      total.largest[row] = largest[h];
      total.sum[row] = sum[h];
    }
    float* const values = total.values + row * WalkSizes<padded>::kTotalStride + 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < padded / 8; ++n) {
      if (8 * n >= size) continue;
      auto two = load_whole<TwoFloats>(values + 8 * n);
#pragma unroll
      for (int i = 0; i < 2; ++i) two.at[i] = merged(two.at[i], part[n][2 * h + i], shares[h]);
      store_whole(values + 8 * n, two);
    }
  }
}

// grid: (rows, KV heads); block: 32 * kTileWarps; shared: walk_shared_bytes(), for 8 bits eight_walk_bytes().
template <int padded, class T = Bf16>
__device__ __forceinline__ void attend_tile_walk(const AttentionArgs& args) {
  using Sizes = WalkSizes<padded, T>;
  constexpr int kStages = Sizes::kStages, kPieces = Sizes::kPieces;
  constexpr bool kOwns = finishes_heads(padded, kEights<T>);
  PAGODA_SHARED(T, own_lines);
  if (is_padding(args, args.rows[blockIdx.x])) return;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int group = args.num_query_heads / args.cache.num_kv_heads, size = args.cache.head_size;
  // The row's own lines, which are copied to their piece when it arrives; then the number of that piece, and
  // the place in it.
  float* const own_scales = reinterpret_cast<float*>(own_lines + 2 * padded);
  int* const own_piece = reinterpret_cast<int*>(own_scales + 2);
  const OwnLines<T> own = {.key = {own_lines, own_scales},
                           .value = {own_lines + padded, own_scales + 1},
                           .floats = own_scales + 4};
  T* const shared = own_lines + (kOwns ? own_line_bytes(padded, kEights<T>) / sizeof(T) : 0);
  Bf16* const query_rows = reinterpret_cast<Bf16*>(shared + kTileWarps * kStages * Sizes::kPiece);
  WalkTotal total;
  total.largest = reinterpret_cast<float*>(query_rows + 16 * TileSizes<padded>::kStride);
  total.sum = total.largest + kMaxHeadGroup;
  total.values = total.sum + kMaxHeadGroup;
  T* const ring = shared + warp * kStages * Sizes::kPiece;
  // This warp's scales and its 16 tokens in bfloat16, if the cache has 8 bits.
  auto* const all_scales = reinterpret_cast<SplitScales*>(total.values + group * Sizes::kTotalStride);
  SplitScales& scales = all_scales[warp];
  Bf16* const wide =
      reinterpret_cast<Bf16*>(all_scales + kTileWarps) + warp * 16 * TileSizes<padded>::kStride;
  const TileOfRows tile = own_tile<padded, T>(args);
  const int last = tile.high / kSplitTokens;
  int split = tile.low / kSplitTokens + warp;
  // The lines of this split's pieces, and of the next split's, if any: `ahead`.
  auto lines = find_lines<kSplitTokens, T, kOwns>(args, tile, split * kSplitTokens), ahead = lines;
  LineScales<kSplitTokens, T> scales_ahead;
  scales_ahead.find(args, tile, split * kSplitTokens);
  const auto copy = [&](int piece) {
    const bool next = piece >= kPieces;
    const int at = piece % kPieces;
    if (split + (next ? kTileWarps : 0) <= last)
      copy_lines<padded, 16, Sizes::kLine>(args, next ? ahead : lines, at % (kPieces / 2) * 16,
                                           at >= kPieces / 2, ring + piece % kStages * Sizes::kPiece);
    copies_commit();
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) copy(i);
  put_heads<padded, T>(args, tile, true, query_rows, own);
  const TileRow rows[2] = {tile_row(args, tile, lane / 4), tile_row(args, tile, lane / 4 + 8)};
  for (int i = static_cast<int>(threadIdx.x); i < group * Sizes::kTotalStride; i += 32 * kTileWarps)
    total.values[i] = 0;
  if (const int row = static_cast<int>(threadIdx.x); row < kMaxHeadGroup) {
    float largest = -INFINITY, sum = 0;
    if (row < group) begin_total(args, tile.kv_head * group + row, largest, sum);
    total.largest[row] = largest;
    total.sum[row] = sum;
  }
  if (kOwns && threadIdx.x == 0) {
    own_piece[0] = tile.stored < tile.high ? tile.high / 16 : -1;
    own_piece[1] = tile.high % 16;
  }
  __syncthreads();
  for (int first = split - warp; first <= last; first += kTileWarps, split += kTileWarps) {
    const bool mine = split <= last;
    scales_ahead.put(scales, 0, own_line(tile, split * kSplitTokens));
    if constexpr (kOwns && kScaleElements<T> != 0)
      if (lane == 0 && own_line(tile, split * kSplitTokens) == tile.high % kSplitTokens) {
        scales.keys[tile.high % kSplitTokens] = own_scales[0];
        scales.values[tile.high % kSplitTokens] = own_scales[1];
      }
    ahead = find_lines<kSplitTokens, T, kOwns>(args, tile, (split + kTileWarps) * kSplitTokens);
    scales_ahead.find(args, tile, (split + kTileWarps) * kSplitTokens);
    SplitWeights weights;
    float part[padded / 8][4];
    // The piece that has arrived, once all lanes are done with the previous one, whose place the next copy
    // takes.
    const auto next_piece = [&](int piece) -> const Bf16* {
      copies_wait<kStages - 2>();
      __syncwarp();
      copy(piece + kStages - 1);
      T* const place = ring + piece % kStages * Sizes::kPiece;
      if (kOwns && split * (kPieces / 2) + piece % (kPieces / 2) == own_piece[0]) {
        const int column = kPieceElements<T> * lane;
        if (column < (size + 15) / 16 * 16)
          store_whole(place + own_piece[1] * Sizes::kLine + column,
                      load_whole<FourWords>(own_lines + (piece < kPieces / 2 ? 0 : padded) + column));
        __syncwarp();
      }
      if constexpr (kEights<T>) {
        widen_piece<padded>(args.cache, place, wide);
        __syncwarp();
        return wide;
      } else {
        return place;
      }
    };
    if (mine) {
      std::uint32_t query[padded / 16][4];
      load_query_matrices<padded>(query_rows, lane, query);
      SplitScores products;
#pragma unroll
      for (int n = 0; n < kPieces / 2; ++n) multiply_16_keys<padded>(args, query, next_piece(n), n, products);
      weights = weigh_scores(args, rows, split * kSplitTokens, tile.all_see_split(split * kSplitTokens),
                             products, kScaleElements<T> != 0 ? &scales : nullptr);
#pragma unroll
      for (int n = 0; n < padded / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) part[n][i] = 0;
#pragma unroll
      for (int k = 0; k < kPieces / 2; ++k) {
        const Bf16* const values = next_piece(kPieces / 2 + k);
#pragma unroll
        for (int n = 0; n < padded / 16; ++n)
          if (16 * n < size)
            add_16_values<padded>(weights.weights[k], values + 16 * n, part[2 * n], part[2 * n + 1]);
      }
    }
    for (int turn = 0; turn < kTileWarps; ++turn) {
      if (turn == warp && mine) add_split<padded>(rows, weights, part, size, total);
      __syncthreads();
    }
    lines = ahead;
  }
  for (int row = 0; row < group; ++row)
    for (int i = static_cast<int>(threadIdx.x); i < size; i += 32 * kTileWarps)
      store_attended(
          args, args.rows[tile.begin], tile.kv_head * group + row, i,
          quotient(total.values[row * Sizes::kTotalStride + i], total.sum[row], scale_of_values<T>(args)));
}

#define PAGODA_WALK_KERNEL(padded)                                                                           \
  __global__ void __launch_bounds__(32 * kTileWarps, 2) attend_tile_walk_##padded(AttentionArgs args) {      \
    begin_kernel();                                                                                          \
    PAGODA_OF_KNOWN_SIZE(padded, attend_tile_walk)                                                           \
  }                                                                                                          \
  __global__ void __launch_bounds__(32 * kTileWarps, 2) attend_tile_walk_##padded##_i8(AttentionArgs args) { \
    begin_kernel();                                                                                          \
    attend_tile_walk<padded, Int8>(args);                                                                    \
  }                                                                                                          \
  __global__ void __launch_bounds__(32 * kTileWarps, 2)                                                      \
      attend_tile_walk_##padded##_fp8(AttentionArgs args) {                                                  \
    begin_kernel();                                                                                          \
    attend_tile_walk<padded, Float8>(args);                                                                  \
  }
PAGODA_WALK_KERNEL(64)
PAGODA_WALK_KERNEL(128)
PAGODA_WALK_KERNEL(256)
#undef PAGODA_WALK_KERNEL

}  // namespace pagoda::device::kernels
