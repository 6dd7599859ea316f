#pragma once
// Paged attention in its plain form (attention_tiles.cuh has that of tiles), for decode and for (chunked)
// prefill. A context is cut into splits of kSplitTokens tokens by their positions. A warp goes through a
// split token by token with the online softmax, and splits are added in ascending order. Decode spreads the
// splits over warps (attend_splits, then merge_splits), prefill goes through them one after the other
// (attend_rows): both call the same functions with the same numbers in the same order, so that a token's bits
// do not depend on which of the two computed it, on the batch or on the chunks. Source: PagedAttention
// (SOSP'23) §4.1; online softmax: Milakov & Gimelshein 2018; fixed splits: Flash-Decoding.
#include "device/kernels/dialect.cuh"
#include "device/kernels/paged_cache.cuh"

namespace pagoda::device::kernels {

constexpr int kLaneElements = kMaxHeadSize / 32;

// A softmax that is under way, of one row and head: elements lane, lane + 32, … of the weighted sum.
struct Softmax {
  float largest, sum;
  float values[kLaneElements];
};

__device__ __forceinline__ void begin(Softmax& state) {
  state.largest = -INFINITY;
  state.sum = 0;
  for (int i = 0; i < kLaneElements; ++i) state.values[i] = 0;
}

// total += part. Parts of nothing change nothing.
__device__ __forceinline__ void add(Softmax& total, float largest, float sum, const float* values, int stride,
                                    int count) {
  if (sum == 0) return;
  const float top = total.largest > largest ? total.largest : largest;
  const float keep = expf(total.largest - top), take = expf(largest - top);
  total.largest = top;
  total.sum = total.sum * keep + sum * take;
  for (int i = 0; i < kLaneElements; ++i)
    if (i < count) total.values[i] = total.values[i] * keep + values[i * stride] * take;
}

struct RowAndHead {
  int row, head, position, first;  // first: of the tokens that it sees
};

__device__ __forceinline__ RowAndHead row_and_head(const AttentionArgs& args, int head) {
  const int row = args.rows[blockIdx.x], position = args.positions[row];
  int first = 0;
  if (args.window > 0) {
    first = position >= args.window ? position - args.window + 1 : 0;
    if (args.chunks != 0) first = position / args.window * args.window;
  }
  return {row, head, position, first};
}

// How many elements of a head a lane has.
__device__ __forceinline__ int lane_elements(const AttentionArgs& args) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return (args.cache.head_size - lane + 31) / 32;
}

// The partial result of a row and head over the tokens of one split.
template <class T>
__device__ __forceinline__ void attend_split(const AttentionArgs& args, const RowAndHead& at, int split,
                                             Softmax& state) {
  const CacheArgs& cache = args.cache;
  const int size = cache.head_size, lane = static_cast<int>(threadIdx.x % 32), count = lane_elements(args);
  const int kv_head = at.head / (args.num_query_heads / cache.num_kv_heads);
  const float* const query =
      args.qkv +
      (static_cast<std::int64_t>(at.row) * (args.num_query_heads + 2 * cache.num_kv_heads) + at.head) * size;
  const int* const table =
      args.block_tables + static_cast<std::int64_t>(args.sequences[at.row]) * args.table_width;
  const int begin_at = at.first > split * kSplitTokens ? at.first : split * kSplitTokens;
  const int behind =
      at.position + 1 < (split + 1) * kSplitTokens ? at.position + 1 : (split + 1) * kSplitTokens;
  begin(state);
  for (int token = begin_at; token < behind; ++token) {
    const int block = table[token / cache.block_size], slot = token % cache.block_size;
    const T* const key = cache_slot<T>(cache, block, false, kv_head, slot);
    const T* const value = cache_slot<T>(cache, block, true, kv_head, slot);
    float product = 0;
    for (int i = lane; i < size; i += 32) product = fmaf(query[i], to_float(key[i]), product);
    float score = warp_sum(product) * args.scale, value_scale = 1;
    if constexpr (kScaleElements<T> != 0) {
      score *= *cache_scale(cache, block, false, kv_head, slot);
      value_scale = *cache_scale(cache, block, true, kv_head, slot);
    }
    if (args.softcap > 0) score = args.softcap * tanhf(score / args.softcap);
    if (args.slopes != nullptr) score -= args.slopes[at.head] * static_cast<float>(at.position - token);
    const float top = state.largest > score ? state.largest : score;
    const float keep = expf(state.largest - top), weight = expf(score - top);
    state.largest = top;
    state.sum = state.sum * keep + weight;
    for (int i = 0; i < kLaneElements; ++i)
      if (i < count)
        state.values[i] = fmaf(weight * value_scale, to_float(value[lane + 32 * i]), state.values[i] * keep);
  }
}

// A sink is a first part without values.
__device__ __forceinline__ void begin_total(const AttentionArgs& args, const RowAndHead& at, Softmax& total) {
  begin(total);
  if (args.sinks == nullptr) return;
  total.largest = args.sinks[at.head];
  total.sum = 1;
}

// A zero is a positive one: whether parts of nothing were added does not show in its sign.
__device__ __forceinline__ float quotient(float value, float sum) { return value / sum + 0.0f; }

__device__ __forceinline__ void finish(const AttentionArgs& args, const RowAndHead& at,
                                       const Softmax& total) {
  const int size = args.cache.head_size, lane = static_cast<int>(threadIdx.x % 32),
            count = lane_elements(args);
  float* const out = args.out + (static_cast<std::int64_t>(at.row) * args.num_query_heads + at.head) * size;
  for (int i = 0; i < kLaneElements; ++i)
    if (i < count) out[lane + 32 * i] = quotient(total.values[i], total.sum);
}

__device__ __forceinline__ float* partial_of(const AttentionArgs& args, int head, int split) {
  const std::int64_t line =
      (static_cast<std::int64_t>(blockIdx.x) * args.num_query_heads + head) * args.splits + split;
  return args.partial + line * (2 + args.cache.head_size);
}

// A warp a query head of one KV head: they read the same keys. grid: (rows, KV heads, splits); block:
// 32 * query heads of a KV head. Splits that a row has nothing of are left as they are.
template <class T>
__device__ __forceinline__ void attend_splits(const AttentionArgs& args) {
  const int lane = static_cast<int>(threadIdx.x % 32), split = static_cast<int>(blockIdx.z);
  const int group = args.num_query_heads / args.cache.num_kv_heads;
  const RowAndHead at =
      row_and_head(args, static_cast<int>(blockIdx.y) * group + static_cast<int>(threadIdx.x / 32));
  if (split * kSplitTokens > at.position || (split + 1) * kSplitTokens <= at.first) return;
  Softmax state;
  attend_split<T>(args, at, split, state);
  float* const partial = partial_of(args, at.head, split);
  if (lane == 0) {
    partial[0] = state.largest;
    partial[1] = state.sum;
  }
  const int count = lane_elements(args);
  for (int i = 0; i < kLaneElements; ++i)
    if (i < count) partial[2 + lane + 32 * i] = state.values[i];
}

__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_splits_f32(AttentionArgs args) {
  attend_splits<float>(args);
}
__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_splits_bf16(AttentionArgs args) {
  attend_splits<Bf16>(args);
}
__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_splits_i8(AttentionArgs args) {
  attend_splits<Int8>(args);
}

// grid: (rows, query heads); block: 32.
__global__ void __launch_bounds__(32) merge_splits(AttentionArgs args) {
  const RowAndHead at = row_and_head(args, static_cast<int>(blockIdx.y));
  const int lane = static_cast<int>(threadIdx.x % 32), count = lane_elements(args);
  Softmax total;
  begin_total(args, at, total);
  for (int split = at.first / kSplitTokens; split <= at.position / kSplitTokens; ++split) {
    const float* const partial = partial_of(args, at.head, split);
    add(total, partial[0], partial[1], partial + 2 + lane, 32, count);
  }
  finish(args, at, total);
}

// Grid and block as attend_splits, without splits.
template <class T>
__device__ __forceinline__ void attend_rows(const AttentionArgs& args) {
  const int group = args.num_query_heads / args.cache.num_kv_heads;
  const RowAndHead at =
      row_and_head(args, static_cast<int>(blockIdx.y) * group + static_cast<int>(threadIdx.x / 32));
  Softmax total, state;
  begin_total(args, at, total);
  for (int split = at.first / kSplitTokens; split <= at.position / kSplitTokens; ++split) {
    attend_split<T>(args, at, split, state);
    add(total, state.largest, state.sum, state.values, 1, lane_elements(args));
  }
  finish(args, at, total);
}

__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_rows_f32(AttentionArgs args) {
  attend_rows<float>(args);
}
__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_rows_bf16(AttentionArgs args) {
  attend_rows<Bf16>(args);
}
__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_rows_i8(AttentionArgs args) {
  attend_rows<Int8>(args);
}

}  // namespace pagoda::device::kernels
