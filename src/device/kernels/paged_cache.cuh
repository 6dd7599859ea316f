#pragma once
// Writes keys and values to the paged cache: norms of heads, rotation and the write to the slot, in one pass
// over the result of the product of query, key and value (§5.1 of the paper, its first kernel). Decode
// attention uses parts of it, too (attention_heads.cuh). Also copies blocks for copy-on-write (its third
// kernel).
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/tile_words.cuh"

namespace pagoda::device::kernels {

// Elements from a slot to the next, and in all of a head's slots, including their scales.
template <class T>
__device__ __forceinline__ int slot_elements(const CacheArgs& cache) {
  return sizeof(T) == 1 ? (cache.head_size + 3) / 4 * 4 : cache.head_size;
}
template <class T>
inline constexpr int kScaleElements = 0;
template <>
inline constexpr int kScaleElements<Int8> = 4;

template <class T>
__device__ __forceinline__ T* cache_head(const CacheArgs& cache, int block, bool value, int kv_head) {
  const std::int64_t head =
      static_cast<std::int64_t>(cache.block_size) * (slot_elements<T>(cache) + kScaleElements<T>);
  return static_cast<T*>(cache.cache) + block * cache.block_elements + cache.layer_offset +
         ((value ? cache.num_kv_heads : 0) + kv_head) * head;
}

template <class T>
__device__ __forceinline__ T* cache_slot(const CacheArgs& cache, int block, bool value, int kv_head,
                                         int slot) {
  return cache_head<T>(cache, block, value, kv_head) +
         static_cast<std::int64_t>(slot) * slot_elements<T>(cache);
}

// The scale of a slot's elements in an 8-bit cache.
__device__ __forceinline__ float* cache_scale(const CacheArgs& cache, int block, bool value, int kv_head,
                                              int slot) {
  Int8* const slots = cache_head<Int8>(cache, block, value, kv_head);
  return reinterpret_cast<float*>(slots +
                                  static_cast<std::int64_t>(cache.block_size) * slot_elements<Int8>(cache)) +
         slot;
}

// Elements i and i + 1 of a head's row if `twos`, otherwise only element i.
__device__ __forceinline__ TwoFloats load_two(const float* x, int i, bool twos) {
  return twos ? load_whole<TwoFloats>(x + i) : TwoFloats{{x[i], 0}};
}
__device__ __forceinline__ void store_two(float* to, bool twos, const TwoFloats& two) {
  if (twos)
    store_whole(to, two);
  else
    *to = two.at[0];
}
__device__ __forceinline__ void store_two(Bf16* to, bool twos, const TwoFloats& two) {
  if (twos)
    store_whole(to, pack(two.at[0], two.at[1]));
  else
    store(to, two.at[0]);
}
// write_line() stores the row instead.
__device__ __forceinline__ void store_two(Int8*, bool, const TwoFloats&) {}
__device__ __forceinline__ void store_two(Float8*, bool, const TwoFloats&) {}

// Location of a token's head in the cache; `scale`: for Int8 only.
template <class T>
struct SlotLine {
  T* line;
  float* scale;
};
template <class T>
__device__ __forceinline__ SlotLine<T> slot_line(const CacheArgs& cache, const int* table, int position,
                                                 bool value, int kv_head) {
  const int block = table[position / cache.block_size], slot = position % cache.block_size;
  SlotLine<T> at = {cache_slot<T>(cache, block, value, kv_head, slot), nullptr};
  if constexpr (kScaleElements<T> != 0) at.scale = cache_scale(cache, block, value, kv_head, slot);
  return at;
}

// Writes a head's row to its slot; called by a warp. In 8 bits the largest magnitude becomes 127; a row so
// small that dividing 127 by it might overflow becomes 0.
template <class T>
__device__ __forceinline__ void write_line(const CacheArgs& cache, bool, const SlotLine<T>& to,
                                           const float* x) {
  const bool twos = cache.head_size % 2 == 0;
  const int each = twos ? 2 : 1, lane = each * static_cast<int>(threadIdx.x % 32);
  for (int i = lane; i < cache.head_size; i += 32 * each) store_two(to.line + i, twos, load_two(x, i, twos));
}
template <>
__device__ __forceinline__ void write_line<Int8>(const CacheArgs& cache, bool, const SlotLine<Int8>& to,
                                                 const float* x) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  float largest = 0;
  for (int i = lane; i < cache.head_size; i += 32) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
  largest = warp_max(largest);
  if (largest < 1e-30f) largest = 0;
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = lane; i < cache.head_size; i += 32)
    to.line[i].value = static_cast<std::int8_t>(rintf(x[i] * inverse));
  if (lane == 0) *to.scale = largest / 127.0f;
}
template <>
__device__ __forceinline__ void write_line<Float8>(const CacheArgs& cache, bool value,
                                                   const SlotLine<Float8>& to, const float* x) {
  const float scale = value ? cache.value_scale : cache.key_scale;
  for (int i = static_cast<int>(threadIdx.x % 32); i < cache.head_size; i += 32)
    store(to.line + i, x[i] / scale);
}

// Norm, rotation and factor of a query or key; called by a warp. keep(i, twos, two) receives elements i and i
// + 1, or only i if not `twos`. It may write to `x`: a lane has both elements of a pair, or of two
// neighbours.
template <class Keep>
__device__ __forceinline__ void finish_head(const RopeAndWriteArgs& args, int row, int position, int head,
                                            const float* x, const Keep& keep) {
  const int size = args.cache.head_size, lane = static_cast<int>(threadIdx.x % 32);
  const bool is_query = head < args.num_query_heads;
  const float* weight = is_query ? args.query_norm : args.key_norm;
  float mean = 0, scale = 1;
  if (weight != nullptr) {
    weight += (is_query ? head : head - args.num_query_heads) * args.norm_stride;
    if (args.centred != 0) {
      float sum = 0;
      for (int i = lane; i < size; i += 32) sum += x[i];
      mean = warp_sum(sum) / static_cast<float>(size);
    }
    float squares = 0;
    for (int i = lane; i < size; i += 32) squares = fmaf(x[i] - mean, x[i] - mean, squares);
    scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(size) + args.norm_eps);
  }
  const bool before = weight != nullptr && args.norm_behind == 0,
             behind = weight != nullptr && args.norm_behind != 0;
  float factor = 1;
  if (is_query && args.query_temperature != 0)
    factor += args.query_temperature *
              log1pf(static_cast<float>((position + args.temperature_offset) / args.temperature_positions));
  const int half = args.rotary_size / 2;
  const bool twos = size % 2 == 0 && half % 2 == 0;
  const int each = twos ? 2 : 1, first = each * lane, step = 32 * each;
  const auto normed = [&](int i) {
    TwoFloats two = load_two(x, i, twos);
#pragma unroll
    for (int j = 0; j < 2; ++j)
      if (before && j < each)
        two.at[j] = (two.at[j] - mean) * scale * weight[i + j];
      else if (behind)
        two.at[j] *= scale;
    return two;
  };
  const auto finish = [&](int i, TwoFloats two) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (behind && j < each) two.at[j] *= weight[i + j];
      if (is_query) two.at[j] *= factor;
    }
    keep(i, twos, two);
  };
  const float* const turn =
      args.cos_sin + (half > 0 ? static_cast<std::int64_t>(args.turns[row]) * args.rotary_size : 0);
#pragma unroll 1
  for (int i = first; i < half; i += step) {
    const TwoFloats a = normed(i), b = normed(i + half), c = load_two(turn, i, twos),
                    s = load_two(turn, i + half, twos);
    TwoFloats low, high;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      low.at[j] = a.at[j] * c.at[j] - b.at[j] * s.at[j];
      high.at[j] = b.at[j] * c.at[j] + a.at[j] * s.at[j];
    }
    finish(i, low);
    finish(i + half, high);
  }
#pragma unroll 1
  for (int i = args.rotary_size + first; i < size; i += step) finish(i, normed(i));
}

// One warp per head. grid: (rows, query + 2 KV heads, kRopeWarps of them each); block: kRopeWarps warps.
template <class T>
__device__ __forceinline__ void rope_and_write(const RopeAndWriteArgs& args) {
  begin_kernel();
  const CacheArgs& cache = args.cache;
  const int head = static_cast<int>(blockIdx.y * kRopeWarps + threadIdx.x / 32);
  const int row = static_cast<int>(blockIdx.x), heads = args.num_query_heads + 2 * cache.num_kv_heads;
  const int position = args.positions[row], first_block = args.tables[row];
  if (first_block < 0 || head >= heads) return;
  float* const x = args.qkv + (static_cast<std::int64_t>(row) * heads + head) * cache.head_size;
  const bool is_query = head < args.num_query_heads;
  const bool is_value = head >= args.num_query_heads + cache.num_kv_heads;
  SlotLine<T> to = {};
  if (!is_query)
    to = slot_line<T>(cache, args.block_tables + first_block, position, is_value,
                      (head - args.num_query_heads) % cache.num_kv_heads);
  if (is_value) return write_line<T>(cache, true, to, x);
  finish_head(args, row, position, head, x, [&](int i, bool twos, const TwoFloats& two) {
    store_two(x + i, twos, two);
    if (!is_query) store_two(to.line + i, twos, two);
  });
  if (is_query || sizeof(T) != 1) return;
  __syncwarp();
  write_line<T>(cache, false, to, x);
}

__global__ void rope_and_write_f32(RopeAndWriteArgs args) { rope_and_write<float>(args); }
__global__ void rope_and_write_bf16(RopeAndWriteArgs args) { rope_and_write<Bf16>(args); }
__global__ void rope_and_write_i8(RopeAndWriteArgs args) { rope_and_write<Int8>(args); }
__global__ void rope_and_write_fp8(RopeAndWriteArgs args) { rope_and_write<Float8>(args); }

// grid: (pairs, blocks of threads that share a pair).
__global__ void copy_blocks(CopyBlocksArgs args) {
  begin_kernel();
  const auto* const from =
      reinterpret_cast<const unsigned long long*>(args.cache + args.from[blockIdx.x] * args.block_bytes);
  auto* const to = reinterpret_cast<unsigned long long*>(args.cache + args.to[blockIdx.x] * args.block_bytes);
  const std::int64_t count = args.block_bytes / 8;
  for (std::int64_t i = blockIdx.y * blockDim.x + threadIdx.x; i < count; i += gridDim.y * blockDim.x)
    to[i] = from[i];
}

}  // namespace pagoda::device::kernels
