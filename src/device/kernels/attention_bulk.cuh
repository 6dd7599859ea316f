#pragma once
// Prefill attention by warpgroups (wgmma): attend_tiles of attention_tiles.cuh for devices of compute
// capability 9.0, for heads of 64 and of 128, over blocks of a multiple of eight tokens, in bfloat16 or in 8
// bits (attention_bulk_eights.cuh). A block has the rows of a tile, 64 per multiplying warpgroup. The last
// warps copy the keys and values of one split after the other, by asynchronous copies, into a ring in shared
// memory, and wait only for the ring. A warpgroup holds the scores of its rows with a split in registers, and
// likewise the weights, which are multiplied from there by the values. While it adds a split to its result,
// its products with the next keys are in flight; while it computes weights, those of the other warpgroup are.
//
// The order of every sum is that of attend_tiles: products by steps of 16 from zero (warpgroup_words.cuh),
// the softmax of a split by weigh_scores(), splits added in ascending order by merge(). So this is another
// form of the same kernel with the same bits, which is tested on each device (attention_check.h). Tiles with
// the most splits go first. grid: (KV heads, tiles); block: kBulkThreads; shared: bulk_attention_bytes().
// Source: FlashAttention-3 (Shah et al. 2024).
#include "device/kernels/attention_bulk_eights.cuh"
#include "device/kernels/attention_splits.cuh"
#include "device/kernels/linear_bulk.cuh"

namespace pagoda::device::kernels {

template <int padded, class T>
struct BulkAttention {
  static constexpr int kStages = bulk_attention_stages(padded, kEights<T>);
  static constexpr int kHalves = padded / 64;  // a line has this many parts of 64 columns, 128 bytes
  static constexpr int kHalfBytes =
      kSplitTokens * kSlabRowBytes;                         // half of a split, and of a warpgroup's queries
  static constexpr int kPieceBytes = kHalves * kHalfBytes;  // keys, or values, of a split
  // Pieces whose copies are in flight while those of the next one are started. The rest of the ring is for
  // the multiplying warpgroups, one of which may be a split behind the other.
  static constexpr int kAhead = kStages - 4;
  static_assert(kAhead >= 2 && kStages % 2 == 0 && kSplitTokens == 64 && kBulkWarpgroups == 2);
};

// The ring, as the copying and the multiplying threads go through it.
template <int padded, class T>
struct AttentionRing {
  using Sizes = BulkAttention<padded, T>;
  static constexpr int kStages = Sizes::kStages, kScales = bulk_scale_stages(padded),
                       kCodeBytes = bulk_code_stages(padded) * kSplitTokens * padded;
  unsigned char *queries, *pieces;
  std::uint64_t *filled, *freed, *queried;
  unsigned char* codes;  // for a cache in 8 bits: codes, and scales of kScales splits
  SplitScales* scales;
  int place = 0;
  unsigned parity = 0;
  __device__ __forceinline__ explicit AttentionRing(unsigned char* shared)
      : queries(shared),
        pieces(shared + kBulkWarpgroups * Sizes::kPieceBytes),
        filled(reinterpret_cast<std::uint64_t*>(pieces + kStages * Sizes::kPieceBytes)),
        freed(filled + kStages),
        queried(freed + kStages),
        codes(reinterpret_cast<unsigned char*>(queried + kBulkWarpgroups)),
        scales(reinterpret_cast<SplitScales*>(codes + kCodeBytes)) {}
  __device__ __forceinline__ void make_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      make_arrivals(filled + i, kBulkBringers);
      make_arrivals(freed + i, kBulkWarpgroups * 4);
    }
    for (int i = 0; i < kBulkWarpgroups; ++i) make_arrivals(queried + i, 128);
  }
  __device__ __forceinline__ unsigned char* piece() const { return pieces + place * Sizes::kPieceBytes; }
  __device__ __forceinline__ void next() {
    place = place + 1 == kStages ? 0 : place + 1;
    if (place == 0) parity ^= 1;
  }
};

template <int padded>
__device__ __forceinline__ void bring_splits(const AttentionArgs& args, const TileOfRows& tile,
                                             unsigned char* shared) {
  using Sizes = BulkAttention<padded, Bf16>;
  // A thread copies 16 bytes of every kAtOnce-th token.
  constexpr int kChunks = padded / 8, kAtOnce = kBulkBringers / kChunks, kLines = kSplitTokens / kAtOnce;
  const int thread = static_cast<int>(threadIdx.x) - 128 * kBulkWarpgroups, lane = thread % 32;
  const int line = thread / kChunks, chunk = thread % kChunks;
  const unsigned to = static_cast<unsigned>(chunk / 8 * Sizes::kHalfBytes + line * kSlabRowBytes +
                                            (chunk % 8 ^ line % 8) * 16);
  const std::int64_t values =
      static_cast<std::int64_t>(args.cache.num_kv_heads) * args.cache.block_size * padded;
  const Bf16* const cache = static_cast<const Bf16*>(args.cache.cache);
  AttentionRing<padded, Bf16> ring(shared), behind(shared);
  // Signals the oldest piece not yet signalled: its copies have arrived and are visible to products.
  const auto tell = [&] {
    show_writes();
    arrive_at(behind.filled + behind.place, 0);
    behind.next();
  };
  int token = tile.low / kSplitTokens * kSplitTokens, started = 0;
  std::int64_t ahead = find_eight<Bf16>(args, tile, token + 8 * (lane % 8));
  for (; token <= tile.high; token += kSplitTokens) {
    const std::int64_t mine = ahead;
    ahead = find_eight<Bf16>(args, tile, token + kSplitTokens + 8 * (lane % 8));
    const bool inner = token >= tile.low && token + kSplitTokens - 1 <= tile.high;
    const Bf16* from[kLines];
    bool there[kLines];
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      const int at = line + kAtOnce * i;
      const std::int64_t eight = __shfl_sync(kAllLanes, mine, at / 8);
      there[i] = inner || (token + at >= tile.low && token + at <= tile.high);
      from[i] = cache + (there[i] ? eight + at % 8 * padded + 8 * chunk : 0);
    }
#pragma unroll
    for (int part = 0; part < 2; ++part, ++started) {
      if (started >= Sizes::kStages) wait_for_arrivals(ring.freed + ring.place, ring.parity ^ 1);
      unsigned char* const piece = ring.piece() + to;
#pragma unroll
      for (int i = 0; i < kLines; ++i)
        copy_async(piece + i * kAtOnce * kSlabRowBytes, from[i] + (there[i] && part == 1 ? values : 0),
                   there[i]);
      copies_commit();
      ring.next();
      if (started < Sizes::kAhead) continue;
      copies_wait<Sizes::kAhead>();
      tell();
    }
  }
  copies_wait<0>();
  for (int i = 0; i < started && i < Sizes::kAhead; ++i) tell();
}

// Writes a warpgroup's queries, rounded, as the left matrix of its products: zeros where a tile has no row.
template <int padded>
__device__ __forceinline__ void put_tile_queries(const AttentionArgs& args, const TileOfRows& tile,
                                                 int first_row, unsigned char* to) {
  constexpr int kChunks = padded / 8;
  const int group = args.num_query_heads / args.cache.num_kv_heads,
            thread = static_cast<int>(threadIdx.x % 128);
  const std::int64_t width =
      static_cast<std::int64_t>(args.num_query_heads + 2 * args.cache.num_kv_heads) * padded;
  const int chunk = thread % kChunks;
#pragma unroll 4
  for (int line = thread / kChunks; line < 64; line += 128 / kChunks) {
    const int packed = first_row + line;
    FourWords words = {};
    if (packed < tile.count * group) {
      const float* const from = args.qkv + args.rows[tile.begin + packed / group] * width +
                                (tile.kv_head * group + packed % group) * padded + 8 * chunk;
      const auto low = load_whole<FourFloats>(from), high = load_whole<FourFloats>(from + 4);
      words = {{pack(low.at[0], low.at[1]), pack(low.at[2], low.at[3]), pack(high.at[0], high.at[1]),
                pack(high.at[2], high.at[3])}};
    }
    store_whole(to + chunk / 8 * BulkAttention<padded, Bf16>::kHalfBytes + line * kSlabRowBytes +
                    (chunk % 8 ^ line % 8) * 16,
                words);
  }
}

template <int padded>
__device__ __forceinline__ void start_scores(const unsigned char* queries, const unsigned char* keys,
                                             SplitScores& scores) {
  fence_products(scores);
#pragma unroll
  for (int half = 0; half < BulkAttention<padded, Bf16>::kHalves; ++half)
#pragma unroll
    for (int k = 0; k < kSlabRowBytes; k += 32) {
      const int at = half * BulkAttention<padded, Bf16>::kHalfBytes + k;
      if (at == 0)
        multiply_warpgroup<false>(scores, queries, keys);
      else
        multiply_warpgroup(scores, queries, keys, at);
    }
  commit_products();
}

template <int padded, class T>
__device__ __forceinline__ void attend_rows_of_warpgroup(const AttentionArgs& args, const TileOfRows& tile,
                                                         unsigned char* shared) {
  using Sizes = BulkAttention<padded, T>;
  constexpr bool kScaled = kScaleElements<T> != 0;
  const int warpgroup = static_cast<int>(threadIdx.x / 128), lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32) % 4;
  AttentionRing<padded, T> ring(shared), behind(shared);
  unsigned char* const queries = ring.queries + warpgroup * Sizes::kPieceBytes;
  put_tile_queries<padded>(args, tile, 64 * warpgroup, queries);
  show_writes();
  arrive_at(ring.queried + warpgroup, 0);
  const int first_row = 64 * warpgroup + 16 * warp + lane / 4;
  const TileRow rows[2] = {tile_row(args, tile, first_row), tile_row(args, tile, first_row + 8)};
  float largest[2], sum[2], values[padded / 8][4], part[padded / 8][4];
#pragma unroll
  for (int h = 0; h < 2; ++h) begin_total(args, rows[h].head, largest[h], sum[h]);
#pragma unroll
  for (int n = 0; n < padded / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) values[n][i] = part[n][i] = 0;
  SplitScores scores = {};
  int token = tile.low / kSplitTokens * kSplitTokens;
  // Pieces that go through the ring. Places that are not filled again are not signalled as free.
  int left = 2 * ((tile.high - token) / kSplitTokens + 1);
  const auto free = [&] {
    if (lane == 0 && left > Sizes::kStages) arrive_at(behind.freed + behind.place, 0);
    --left;
    behind.next();
  };
  const auto next_piece = [&] {
    wait_for_arrivals(ring.filled + ring.place, ring.parity);
    const unsigned char* const piece = ring.piece();
    ring.next();
    return piece;
  };
  wait_for_arrivals(ring.queried + warpgroup, 0);
  SplitWeights weights;
  int of_split = 0;
  const auto weigh = [&] {
    wait_for_products<0>();
    take_products(scores);
    free();
    weights = weigh_scores(args, rows, token, tile.all_see_split(token), scores,
                           kScaled ? ring.scales + of_split : nullptr);
    if constexpr (kScaled) {
      of_split = of_split + 1 == ring.kScales ? 0 : of_split + 1;
      __syncwarp();  // all lanes have read them before the place is freed again
    }
  };
  const auto start_part = [&] {
    const unsigned char* const split_values = next_piece();
    fence_products(part, weights.weights);
#pragma unroll
    for (int k = 0; k < kSplitTokens / 16; ++k) {
      const int at = 16 * k * kSlabRowBytes;
      if (k == 0)
        multiply_lines<false>(part, weights.weights[k], split_values, Sizes::kHalfBytes, at);
      else
        multiply_lines(part, weights.weights[k], split_values, Sizes::kHalfBytes, at);
    }
    commit_products();
  };
  const auto add_part = [&] {
    take_products(part);
    free();
    Shares shares[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) shares[h] = merge(largest[h], sum[h], weights.largest[h], weights.sum[h]);
#pragma unroll
    for (int n = 0; n < padded / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) values[n][i] = merged(values[n][i], part[n][i], shares[i / 2]);
  };
  // No product is in flight from one iteration to the next: the compiler could not track it.
  start_scores<padded>(queries, next_piece(), scores);
  weigh();
  for (token += kSplitTokens; token <= tile.high; token += kSplitTokens) {
    start_part();
    start_scores<padded>(queries, next_piece(), scores);
    wait_for_products<1>();
    add_part();
    weigh();
  }
  start_part();
  wait_for_products<0>();
  add_part();
  const float scale = scale_of_values<T>(args);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (!rows[h].there) continue;
#pragma unroll
    for (int n = 0; n < padded / 8; ++n)
      store_attended(args, rows[h].row, rows[h].head, 8 * n + 2 * (lane % 4),
                     TwoFloats{quotient(values[n][2 * h], sum[h], scale),
                               quotient(values[n][2 * h + 1], sum[h], scale)});
  }
}

template <int padded, class T = Bf16>
__device__ __forceinline__ void attend_bulk(const AttentionArgs& args) {
  begin_kernel();
  PAGODA_SWIZZLED_SHARED(unsigned char, shared);
  if (threadIdx.x == 0) AttentionRing<padded, T>(shared).make_barriers();
  cluster_arrive();
  cluster_wait();
  const int at = static_cast<int>(gridDim.y - 1 - blockIdx.y), begin = args.tiles[at];
  const TileOfRows tile = tile_of_rows(args, begin, args.tiles[at + 1] - begin, static_cast<int>(blockIdx.x));
  if (threadIdx.x < 128 * kBulkWarpgroups) {
    set_registers<kAttentionRegisters, true>();
    attend_rows_of_warpgroup<padded, T>(args, tile, shared);
  } else {
    set_registers<kAttentionBringersRegisters, false>();
    if constexpr (kEights<T>)
      bring_eights<padded, T, AttentionRing<padded, T>>(args, tile, shared);
    else
      bring_splits<padded>(args, tile, shared);
  }
}

#if defined(__CUDA_ARCH__) && !defined(PAGODA_WARPGROUPS)
#define PAGODA_BULK_KERNEL(name, padded, T) \
  __global__ void attend_bulk_##name(AttentionArgs) { begin_kernel(); }
#else
#define PAGODA_BULK_KERNEL(name, padded, T)                                                   \
  __global__ void __launch_bounds__(kBulkThreads, 1) attend_bulk_##name(AttentionArgs args) { \
    attend_bulk<padded, T>(args);                                                             \
  }
#endif
PAGODA_BULK_KERNEL(64, 64, Bf16)
PAGODA_BULK_KERNEL(128, 128, Bf16)
PAGODA_BULK_KERNEL(64_i8, 64, Int8)
PAGODA_BULK_KERNEL(128_i8, 128, Int8)
PAGODA_BULK_KERNEL(64_fp8, 64, Float8)
PAGODA_BULK_KERNEL(128_fp8, 128, Float8)
#undef PAGODA_BULK_KERNEL

}  // namespace pagoda::device::kernels
