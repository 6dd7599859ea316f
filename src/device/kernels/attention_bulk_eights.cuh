#pragma once
// Copies keys and values in 8 bits for prefill attention by warpgroups (attention_bulk.cuh). Codes are copied
// to shared memory unchanged, by asynchronous copies several pieces ahead. The thread that copied some of
// them then widens these to bfloat16, which holds them exactly, and writes them to the ring. So it waits only
// for the ring, and the multiplying warps see the same data as for a cache in bfloat16; the scales of tokens
// (attention_eights.cuh) are stored beside the ring.
#include "device/kernels/attention_eights.cuh"
#include "device/kernels/warpgroup_words.cuh"

namespace pagoda::device::kernels {

template <int padded>
struct BulkEights {
  static constexpr int kPieces = bulk_code_stages(padded), kPieceBytes = kSplitTokens * padded;
  static constexpr int kChunks = padded / 16, kAtOnce = kBulkBringers / kChunks,
                       kLines = kSplitTokens / kAtOnce;
  static_assert(kPieces > 2 && kSplitTokens % kAtOnce == 0);
};

// Widens a thread's codes of a piece, 16 of every kAtOnce-th token, into lines of a piece of the ring, as
// bring_splits() writes those in bfloat16. Threads that store at the same time use different banks.
template <int padded, class T>
__device__ __forceinline__ void widen_into_piece(const T* codes, unsigned char* piece, int line, int chunk) {
  using Sizes = BulkEights<padded>;
  constexpr int kHalfBytes = kSplitTokens * kSlabRowBytes;
  const int turn = Sizes::kChunks > 4 && chunk >= 4 ? 1 : 0;
#pragma unroll
  for (int i = 0; i < Sizes::kLines; ++i) {
    const int at = line + Sizes::kAtOnce * i;
    const auto four = load_whole<FourWords>(codes + at * padded + 16 * chunk);
    FourWords eights[2];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      widen_codes(four.at[j], static_cast<const T*>(nullptr), eights[j / 2].at[2 * (j % 2)],
                  eights[j / 2].at[2 * (j % 2) + 1]);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int which = 2 * chunk + (k ^ turn);
      FourWords words;
#pragma unroll
      for (int j = 0; j < 4; ++j) words.at[j] = turn != 0 ? eights[1 - k].at[j] : eights[k].at[j];
      store_whole(piece + which / 8 * kHalfBytes + at * kSlabRowBytes + (which % 8 ^ at % 8) * 16, words);
    }
  }
}

// Each thread has one token's scale of keys, or of values: zero if no row sees the token.
template <class T, bool there = kScaleElements<T> != 0>
struct TokenScale {
  float scale = 0;
  __device__ __forceinline__ void find(const AttentionArgs& args, const TileOfRows& tile, int token,
                                       int thread) {
    const CacheArgs& cache = args.cache;
    const int at = token + thread % kSplitTokens;
    scale = 0;
    if (at >= tile.low && at <= tile.high)
      scale = *cache_scale(cache, tile.table[at / cache.block_size], thread >= kSplitTokens, tile.kv_head,
                           at % cache.block_size);
  }
  __device__ __forceinline__ void put(SplitScales& to, int thread) const {
    (thread < kSplitTokens ? to.keys : to.values)[thread % kSplitTokens] = scale;
  }
};
template <class T>
struct TokenScale<T, false> {  // no scales
  __device__ __forceinline__ void find(const AttentionArgs&, const TileOfRows&, int, int) {}
  __device__ __forceinline__ void put(SplitScales&, int) const {}
};

// bring_splits() for such a cache. Ring: AttentionRing.
template <int padded, class T, class Ring>
__device__ __forceinline__ void bring_eights(const AttentionArgs& args, const TileOfRows& tile,
                                             unsigned char* shared) {
  using Sizes = BulkEights<padded>;
  static_assert(kBulkBringers == 2 * kSplitTokens);  // one scale per thread
  const int thread = static_cast<int>(threadIdx.x) - 128 * kBulkWarpgroups, lane = thread % 32;
  const int line = thread / Sizes::kChunks, chunk = thread % Sizes::kChunks;
  const std::int64_t values = values_behind<T>(args.cache);
  const T* const cache = static_cast<const T*>(args.cache.cache);
  Ring ring(shared);
  T* const codes = reinterpret_cast<T*>(ring.codes);
  const int begin = tile.low / kSplitTokens * kSplitTokens,
            pieces = 2 * ((tile.high - begin) / kSplitTokens + 1);
  // `ahead`: locations of the split that is copied next; `scale`: of the split that is widened next.
  std::int64_t ahead = find_eight<T>(args, tile, begin + 8 * (lane % 8));
  TokenScale<T> scale;
  scale.find(args, tile, begin, thread);
  std::int64_t mine = -1;
  int to = 0, from = 0, of_split = 0;
  for (int i = 0; i < pieces + Sizes::kPieces - 1; ++i) {
    if (i < pieces) {
      const int token = begin + i / 2 * kSplitTokens;
      if (i % 2 == 0) {
        mine = ahead;
        ahead = find_eight<T>(args, tile, token + kSplitTokens + 8 * (lane % 8));
      }
#pragma unroll
      for (int j = 0; j < Sizes::kLines; ++j) {
        const int at = line + Sizes::kAtOnce * j;
        const std::int64_t eight = __shfl_sync(kAllLanes, mine, at / 8);
        const bool there = token + at >= tile.low && token + at <= tile.high;
        copy_async(codes + to * Sizes::kPieceBytes + at * padded + 16 * chunk,
                   cache + (there ? eight + at % 8 * padded + 16 * chunk + (i % 2 != 0 ? values : 0) : 0),
                   there);
      }
      to = to + 1 == Sizes::kPieces ? 0 : to + 1;
    }
    copies_commit();
    const int number = i - (Sizes::kPieces - 1);
    if (number < 0) continue;
    copies_wait<Sizes::kPieces - 1>();  // this thread's codes of piece `number`
    if (number >= Ring::kStages) wait_for_arrivals(ring.freed + ring.place, ring.parity ^ 1);
    widen_into_piece<padded>(codes + from * Sizes::kPieceBytes, ring.piece(), line, chunk);
    if (number % 2 == 0) {
      scale.put(ring.scales[of_split], thread);
      scale.find(args, tile, begin + (number / 2 + 1) * kSplitTokens, thread);
      of_split = of_split + 1 == Ring::kScales ? 0 : of_split + 1;
    }
    show_writes();
    arrive_at(ring.filled + ring.place, 0);
    ring.next();
    from = from + 1 == Sizes::kPieces ? 0 : from + 1;
  }
}

}  // namespace pagoda::device::kernels
