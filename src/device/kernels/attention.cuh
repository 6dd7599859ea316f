#pragma once
// Plain paged attention (attention_tiles.cuh has the form by tiles), for decode and (chunked) prefill. A
// context is divided by position into splits of kSplitTokens tokens. A warp goes through a split token by
// token with the online softmax, and splits are added in ascending order. Decode spreads the splits over
// warps (attend_splits, whose last block adds them); prefill goes through them one after the other
// (attend_rows). Both call the same functions with the same numbers in the same order. The bits of a token
// therefore do not depend on which of the two computed it, on the batch or on the chunks. Source:
// PagedAttention (SOSP'23) §4.1; online softmax: Milakov & Gimelshein 2018; fixed splits: Flash-Decoding.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/paged_cache.cuh"
#include "device/kernels/tickets.cuh"

namespace pagoda::device::kernels {

constexpr int kLaneElements = kMaxHeadSize / 32;

// An unfinished softmax of one row and head: elements lane, lane + 32, … of the weighted sum.
struct Softmax {
  float largest, sum;
  float values[kLaneElements];
};

__device__ __forceinline__ void begin(Softmax& state) {
  state.largest = -INFINITY;
  state.sum = 0;
  for (int i = 0; i < kLaneElements; ++i) state.values[i] = 0;
}

// The factors of an unfinished softmax and of a new part in their sum. Empty parts change nothing. Decode's
// merge and prefill's loops, plain and by tiles, all add with these two functions, splits ascending.
struct Shares {
  float keep, take;
  bool any;
};
__device__ __forceinline__ Shares merge(float& largest, float& sum, float part_largest, float part_sum) {
  if (part_sum == 0) return {1, 0, false};
  const float top = largest > part_largest ? largest : part_largest;
  const Shares shares = {expf(largest - top), expf(part_largest - top), true};
  largest = top;
  sum = fmaf(part_sum, shares.take, sum * shares.keep);
  return shares;
}
__device__ __forceinline__ float merged(float value, float part, const Shares& shares) {
  return shares.any ? fmaf(part, shares.take, value * shares.keep) : value;
}

// Stores element `column` of a row's head, or that element and the next.
__device__ __forceinline__ void store_attended(const AttentionArgs& args, int row, int head, int column,
                                               float value) {
  const int i = head * args.cache.head_size + column;
  if (args.rounded == nullptr) {
    args.out[static_cast<std::int64_t>(row) * args.num_query_heads * args.cache.head_size + i] = value;
  } else {
    Bf16 rounded;
    store(&rounded, value);
    args.rounded[slab_place(args.slab_rows, row, i)] = rounded.bits;
  }
}
__device__ __forceinline__ void store_attended(const AttentionArgs& args, int row, int head, int column,
                                               const TwoFloats& values) {
  const int i = head * args.cache.head_size + column;
  if (args.rounded == nullptr)
    store_whole(args.out + static_cast<std::int64_t>(row) * args.num_query_heads * args.cache.head_size + i,
                values);
  else
    store_whole(args.rounded + slab_place(args.slab_rows, row, i), pack(values.at[0], values.at[1]));
}

// Stores four columns of a row's head, from a multiple of four on, as far as the head has them.
__device__ __forceinline__ void store_attended(const AttentionArgs& args, int row, int head, int column,
                                               const FourFloats& values) {
  const bool twos = args.cache.head_size % 2 == 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i >= args.cache.head_size || (twos && i % 2 != 0)) continue;
    if (twos)
      store_attended(args, row, head, column + i, TwoFloats{values.at[i], values.at[i + 1 < 4 ? i + 1 : i]});
    else
      store_attended(args, row, head, column + i, values.at[i]);
  }
}

struct RowAndHead {
  int row, head, position, first;  // first: of the tokens that the row sees
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

// True for rows that pad a step to the number with which a graph was captured.
__device__ __forceinline__ bool is_padding(const AttentionArgs& args, int row) {
  return args.tables[row] < 0;
}

// Number of elements of a head that belong to this lane.
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
  const int* const table = args.block_tables + args.tables[at.row];
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

// A sink is an initial part without values.
__device__ __forceinline__ void begin_total(const AttentionArgs& args, int head, float& largest, float& sum) {
  largest = args.sinks != nullptr ? args.sinks[head] : -INFINITY;
  sum = args.sinks != nullptr ? 1.0f : 0.0f;
}

// A zero is always positive: its sign does not show whether empty parts were added.
__device__ __forceinline__ float quotient(float value, float sum, float scale = 1) {
  return value / sum * scale + 0.0f;
}
// The factor of sums of values as stored in the cache.
template <class T>
__device__ __forceinline__ float scale_of_values(const AttentionArgs& args) {
  return std::is_same_v<T, Float8> ? args.cache.value_scale : 1.0f;
}

__device__ __forceinline__ float* partial_of(const AttentionArgs& args, int head, int split) {
  const std::int64_t line =
      (static_cast<std::int64_t>(blockIdx.x) * args.num_query_heads + head) * args.splits + split;
  return args.partial + line * partial_line(args.cache.head_size);
}

// Adds the splits [first, behind) of a row and KV head, which are visible to this block. `at_once` of them
// are copied to shared memory of merge_shared_bytes(), one thread per query head computes their factors, and
// then all threads add four columns each. Called by all threads of the block.
__device__ __forceinline__ void merge_splits(const AttentionArgs& args, int row, int kv_head, int first,
                                             int behind, int at_once, float* shared) {
  const int size = args.cache.head_size, group = args.num_query_heads / args.cache.num_kv_heads;
  const int thread = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const int line = partial_line(size), of_head = merged_head_floats(size, at_once), fours = (size + 3) / 4;
  // Lines of a head's splits, then their factors; and [query heads][line]: sums of values, then the sum.
  float* const totals = shared + group * of_head;
  float largest = 0, sum = 0;
  if (thread < group) begin_total(args, kv_head * group + thread, largest, sum);
  for (int at = first; at < behind; at += at_once) {
    const int count = at_once < behind - at ? at_once : behind - at;
    for (int head = thread / 32; head < group; head += step / 32) {
      const float* const from = partial_of(args, kv_head * group + head, at);
      for (int i = 4 * (thread % 32); i < count * line; i += 4 * 32)
        copy_async(shared + head * of_head + i, from + i, true);
      __syncwarp();  // some lanes have one piece more
    }
    copies_commit();
    copies_wait<0>();
    __syncthreads();  // all copies have arrived
    const auto shares_of = [&](int head) {
      return reinterpret_cast<Shares*>(shared + head * of_head + at_once * line);
    };
    if (thread < group) {
      for (int i = 0; i < count; ++i) {
        const float* const part = shared + thread * of_head + i * line + size;
        shares_of(thread)[i] = merge(largest, sum, part[0], part[1]);
      }
      totals[thread * line + size] = sum;
    }
    __syncthreads();
    for (int i = thread; i < group * fours; i += step) {
      const int head = i / fours, column = 4 * (i - head * fours);
      float* const kept = totals + head * line + column;
      FourFloats total = at == first ? FourFloats{} : load_whole<FourFloats>(kept);
#pragma unroll 4
      for (int j = 0; j < count; ++j) {
        const Shares shares = shares_of(head)[j];
        const auto part = load_whole<FourFloats>(shared + head * of_head + j * line + column);
#pragma unroll
        for (int k = 0; k < 4; ++k) total.at[k] = merged(total.at[k], part.at[k], shares);
      }
      if (at + at_once < behind) {
        store_whole(kept, total);
        continue;
      }
      const float all = totals[head * line + size];
#pragma unroll
      for (int k = 0; k < 4; ++k) total.at[k] = quotient(total.at[k], all, args.cache.value_scale);
      store_attended(args, row, kv_head * group + head, column, total);
    }
    __syncthreads();  // and have been read
  }
}

// The end of every block of splits: the last block of a row and KV head to arrive adds the results of all of
// them. `each_block`: splits per block; `shared_bytes`: size of shared memory, which is free once all threads
// have arrived.
__device__ __forceinline__ void merge_when_last(const AttentionArgs& args, int row, int first_token,
                                                int position, int each_block, std::uint32_t shared_bytes) {
  PAGODA_SHARED(float, shared);
  const int first = first_token / kSplitTokens, last = position / kSplitTokens,
            kv_head = static_cast<int>(blockIdx.y), blocks = last / each_block - first / each_block + 1;
  std::uint32_t* const counter =
      args.tickets + static_cast<std::int64_t>(blockIdx.x) * args.cache.num_kv_heads + kv_head;
  if (is_last_block(counter, static_cast<std::uint32_t>(blocks)))
    merge_splits(
        args, row, kv_head, first, last + 1,
        merged_at_once(shared_bytes, args.num_query_heads / args.cache.num_kv_heads, args.cache.head_size),
        shared);
}

// One warp per query head of one KV head: they read the same keys. grid: (rows, KV heads, splits); block: 32
// * query heads of a KV head; shared: merge_shared_bytes(). Splits beyond a row's tokens are not written.
template <class T>
__device__ __forceinline__ void attend_splits(const AttentionArgs& args) {
  begin_kernel();
  const int lane = static_cast<int>(threadIdx.x % 32), split = static_cast<int>(blockIdx.z);
  const int group = args.num_query_heads / args.cache.num_kv_heads;
  const RowAndHead at =
      row_and_head(args, static_cast<int>(blockIdx.y) * group + static_cast<int>(threadIdx.x / 32));
  if (split * kSplitTokens > at.position || (split + 1) * kSplitTokens <= at.first) return;
  if (is_padding(args, at.row)) return;
  Softmax state;
  attend_split<T>(args, at, split, state);
  float* const partial = partial_of(args, at.head, split);
  const int count = lane_elements(args);
  for (int i = 0; i < kLaneElements; ++i)
    if (i < count) partial[lane + 32 * i] = state.values[i];
  if (lane == 0) {
    partial[args.cache.head_size] = state.largest;
    partial[args.cache.head_size + 1] = state.sum;
  }
  merge_when_last(args, at.row, at.first, at.position, 1, kPlainMergeBytes);
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
__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_splits_fp8(AttentionArgs args) {
  attend_splits<Float8>(args);
}

// Grid and block as in attend_splits, without splits.
template <class T>
__device__ __forceinline__ void attend_rows(const AttentionArgs& args) {
  begin_kernel();
  const int group = args.num_query_heads / args.cache.num_kv_heads;
  const RowAndHead at =
      row_and_head(args, static_cast<int>(blockIdx.y) * group + static_cast<int>(threadIdx.x / 32));
  Softmax total, state;
  begin(total);
  begin_total(args, at.head, total.largest, total.sum);
  for (int split = at.first / kSplitTokens; split <= at.position / kSplitTokens; ++split) {
    attend_split<T>(args, at, split, state);
    const Shares shares = merge(total.largest, total.sum, state.largest, state.sum);
    for (int i = 0; i < kLaneElements; ++i)
      total.values[i] = merged(total.values[i], state.values[i], shares);
  }
  const int lane = static_cast<int>(threadIdx.x % 32), count = lane_elements(args);
  for (int i = 0; i < kLaneElements; ++i)
    if (i < count)
      store_attended(args, at.row, at.head, lane + 32 * i,
                     quotient(total.values[i], total.sum, scale_of_values<T>(args)));
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
__global__ void __launch_bounds__(32 * kMaxHeadGroup, 1) attend_rows_fp8(AttentionArgs args) {
  attend_rows<Float8>(args);
}

}  // namespace pagoda::device::kernels
