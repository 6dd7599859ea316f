#pragma once
// Attention by tiles over caches in 8 bits. The codes of a head's slots are copied to shared memory unchanged
// and widened to bfloat16, which holds them exactly, 16 tokens at a time before the products that read them.
// A token's key scale multiplies its score; its value scale multiplies its weight in the product with the
// values. 8-bit floats have scales of the layer, which multiply all scores and, at the end, the sums. So
// these caches also have a fixed order of sums, which all forms of attention_tiles.cuh follow.
#include "device/kernels/attention_heads.cuh"

namespace pagoda::device::kernels {

// Widens four codes into two registers.
__device__ __forceinline__ void widen_codes(std::uint32_t codes, const Int8*, std::uint32_t& first,
                                            std::uint32_t& second) {
  constexpr float kOffset = 8388608.0f + 128.0f;  // codes are 128 too high once their first bit is flipped
  const std::uint32_t turned = codes ^ 0x80808080u;
  first = pack(large_and_byte(turned, 0) - kOffset, large_and_byte(turned, 1) - kOffset);
  second = pack(large_and_byte(turned, 2) - kOffset, large_and_byte(turned, 3) - kOffset);
}

// Sign, exponent and fraction move to their places in bfloat16; 2^120 corrects the exponent bias, also for
// subnormal numbers.
__device__ __forceinline__ void widen_codes(std::uint32_t codes, const Float8*, std::uint32_t& first,
                                            std::uint32_t& second) {
  constexpr std::uint32_t kBias = 0x7B807B80u;
  const std::uint32_t low = __byte_perm(codes, 0, 0x1404u), high = __byte_perm(codes, 0, 0x3424u);
  first = multiply_pair((low & 0x80008000u) | (low >> 4 & 0x07F007F0u), kBias);
  second = multiply_pair((high & 0x80008000u) | (high >> 4 & 0x07F007F0u), kBias);
}

// Widens the lines of 16 tokens, `padded` codes each, into lines of bfloat16. A lane widens the pieces that
// it has copied itself (copy_lines), so that it need not wait for other lanes; except for a line made by the
// block, after a barrier.
template <int padded, class T>
__device__ __forceinline__ void widen_piece(const CacheArgs& cache, const T* codes, Bf16* to) {
  constexpr int kPieces = padded / 16;
  const int lane = static_cast<int>(threadIdx.x % 32), piece = lane % kPieces;
  if (16 * piece >= cache.head_size) return;
  // Lanes that store at the same time use different banks.
  const int turn = kPieces >= 8 && lane / 4 % 2 != 0 ? 1 : 0;
#pragma unroll
  for (int first = 0; first < 16; first += 32 / kPieces) {
    const int line = first + lane / kPieces;
    const auto four = load_whole<FourWords>(codes + line * padded + 16 * piece);
    FourWords halves[2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      widen_codes(four.at[i], static_cast<const T*>(nullptr), halves[i / 2].at[2 * (i % 2)],
                  halves[i / 2].at[2 * (i % 2) + 1]);
    Bf16* const at = to + line * TileSizes<padded>::kStride + 16 * piece;
    FourWords first_half, second_half;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      first_half.at[i] = turn != 0 ? halves[1].at[i] : halves[0].at[i];
      second_half.at[i] = turn != 0 ? halves[0].at[i] : halves[1].at[i];
    }
    store_whole(at + 8 * turn, first_half);
    store_whole(at + 8 * (1 - turn), second_half);
  }
}

// Scales of `lines` tokens from `token` on: lane i has those of tokens i and i + 32; zero if no row sees the
// token, or the cache does not have it yet.
template <int lines, class T, bool there = kScaleElements<T> != 0>
struct LineScales {
  static constexpr int kEach = (lines + 31) / 32;
  float keys[kEach], values[kEach];
  __device__ __forceinline__ void find(const AttentionArgs& args, const TileOfRows& tile, int token) {
    const CacheArgs& cache = args.cache;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = token + 32 * i + lane;
      keys[i] = values[i] = 0;
      if (32 * i + lane >= lines || at < tile.low || at > tile.stored) continue;
      const int block = tile.table[at / cache.block_size], slot = at % cache.block_size;
      keys[i] = *cache_scale(cache, block, false, tile.kv_head, slot);
      values[i] = *cache_scale(cache, block, true, tile.kv_head, slot);
    }
  }
  // Stores them from the split's token `first` on, except for `own`, which the block makes.
  __device__ __forceinline__ void put(SplitScales& to, int first, int own = -1) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (32 * i + lane >= lines || 32 * i + lane == own) continue;
      to.keys[first + 32 * i + lane] = keys[i];
      to.values[first + 32 * i + lane] = values[i];
    }
  }
};
template <int lines, class T>
struct LineScales<lines, T, false> {  // no scales
  __device__ __forceinline__ void find(const AttentionArgs&, const TileOfRows&, int) {}
  __device__ __forceinline__ void put(SplitScales&, int, int = -1) const {}
};

// attend_tile_split() of attention_tiles.cuh. Shared: eight_splits_bytes(). The block's queries are stored
// where its first warp later has 16 tokens in bfloat16.
template <int padded, class T>
__device__ __forceinline__ void attend_eight_split(const AttentionArgs& args, const TileOfRows& tile) {
  using Sizes = TileSizes<padded>;
  PAGODA_SHARED(unsigned char, shared);
  struct Room {
    T *keys, *values;
    Bf16* wide;
    SplitScales* scales;
  };
  const auto room_of = [&](int warp) -> Room {
    T* const keys = reinterpret_cast<T*>(shared + warp * eight_shared_bytes(padded));
    T* const values = keys + kSplitTokens * padded;
    Bf16* const wide = reinterpret_cast<Bf16*>(values + kSplitTokens * padded);
    return {keys, values, wide, reinterpret_cast<SplitScales*>(wide + 16 * Sizes::kStride)};
  };
  constexpr int kWarps = split_warps(padded);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int first = static_cast<int>(blockIdx.z) * kWarps, split = first + warp, token = split * kSplitTokens;
  const bool mine = token <= tile.high && token + kSplitTokens > tile.low;
  const auto [keys, values, wide, all_scales] = room_of(warp);
  SplitScales& scales = *all_scales;
  if (mine) {
    constexpr bool kOwns = finishes_heads(padded, true);
    const auto lines = find_lines<kSplitTokens, T, kOwns>(args, tile, token);
    copy_lines<padded, kSplitTokens, padded>(args, lines, 0, false, keys);
    copies_commit();
    copy_lines<padded, kSplitTokens, padded>(args, lines, 0, true, values);
    copies_commit();
    LineScales<kSplitTokens, T> of_lines;
    of_lines.find(args, tile, token);
    of_lines.put(scales, 0, own_line(tile, token));
  }
  Bf16* const queries = room_of(0).wide;
  const int own_warp = tile.high / kSplitTokens - first, line = tile.high % kSplitTokens;
  const Room own = room_of(own_warp);
  put_heads<padded, T>(args, tile, own_warp < kWarps, queries,
                       {.key = {own.keys + line * padded, own.scales->keys + line},
                        .value = {own.values + line * padded, own.scales->values + line},
                        .floats = reinterpret_cast<float*>(shared + kWarps * eight_shared_bytes(padded))});
  __syncthreads();
  std::uint32_t query[padded / 16][4];
  load_query_matrices<padded>(queries, lane, query);
  __syncthreads();  // and have been read
  if (!mine) return;
  const TileRow rows[2] = {tile_row(args, tile, lane / 4), tile_row(args, tile, lane / 4 + 8)};
  copies_wait<1>();
  SplitScores scores;
#pragma unroll
  for (int n = 0; n < kSplitTokens / 16; ++n) {
    __syncwarp();  // all lanes have read the previous piece
    widen_piece<padded>(args.cache, keys + 16 * n * padded, wide);
    __syncwarp();
    multiply_16_keys<padded>(args, query, wide, n, scores);
  }
  const SplitWeights weights = weigh_scores(args, rows, token, tile.all_see_split(token), scores,
                                            kScaleElements<T> != 0 ? &scales : nullptr);
  copies_wait<0>();
  store_softmax(args, rows, split, weights);
  float part[padded / 8][4] = {};
#pragma unroll
  for (int k = 0; k < kSplitTokens / 16; ++k) {
    __syncwarp();
    widen_piece<padded>(args.cache, values + 16 * k * padded, wide);
    __syncwarp();
#pragma unroll
    for (int n = 0; n < padded / 16; ++n)
      if (16 * n < args.cache.head_size)
        add_16_values<padded>(weights.weights[k], wide + 16 * n, part[2 * n], part[2 * n + 1]);
  }
#pragma unroll
  for (int n = 0; n < padded / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int column = 8 * n + 2 * (lane % 4);
      if (!rows[h].there || column >= args.cache.head_size) continue;
      store_whole(partial_of(args, rows[h].head, split) + column,
                  TwoFloats{part[n][2 * h], part[n][2 * h + 1]});
    }
}

}  // namespace pagoda::device::kernels
