#pragma once
// Keys and values on their way into the paged cache: norms of heads, rotation and the write to the slot, one
// pass over what the product of query, key and value gave (§5.1 of the paper, its first kernel); and copies
// of blocks for copy-on-write (its third).
#include "device/kernels/dialect.cuh"

namespace pagoda::device::kernels {

// Elements from a slot to the next, and of all of a head's slots with what lies behind them.
template <class T>
__device__ __forceinline__ int slot_elements(const CacheArgs& cache) {
  return cache.head_size;
}
template <>
__device__ __forceinline__ int slot_elements<Int8>(const CacheArgs& cache) {
  return (cache.head_size + 3) / 4 * 4;
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

// An 8-bit cache's factor of a slot's elements.
__device__ __forceinline__ float* cache_scale(const CacheArgs& cache, int block, bool value, int kv_head,
                                              int slot) {
  Int8* const slots = cache_head<Int8>(cache, block, value, kv_head);
  return reinterpret_cast<float*>(slots +
                                  static_cast<std::int64_t>(cache.block_size) * slot_elements<Int8>(cache)) +
         slot;
}

// A head's row into its slot, by a warp. In 8 bits: the largest becomes 127, and what is so small that 127
// divided by it might overflow is 0.
template <class T>
__device__ __forceinline__ void write_slot(const CacheArgs& cache, int block, bool value, int kv_head,
                                           int slot, const float* x) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  T* const to = cache_slot<T>(cache, block, value, kv_head, slot);
  for (int i = lane; i < cache.head_size; i += 32) store(to + i, x[i]);
}
template <>
__device__ __forceinline__ void write_slot<Int8>(const CacheArgs& cache, int block, bool value, int kv_head,
                                                 int slot, const float* x) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Int8* const to = cache_slot<Int8>(cache, block, value, kv_head, slot);
  float largest = 0;
  for (int i = lane; i < cache.head_size; i += 32) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
  largest = warp_max(largest);
  if (largest < 1e-30f) largest = 0;
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = lane; i < cache.head_size; i += 32)
    to[i].value = static_cast<std::int8_t>(rintf(x[i] * inverse));
  if (lane == 0) *cache_scale(cache, block, value, kv_head, slot) = largest / 127.0f;
}

// A warp a head. grid: (rows, query + 2 KV heads); block: 32.
template <class T>
__device__ __forceinline__ void rope_and_write(const RopeAndWriteArgs& args) {
  const CacheArgs& cache = args.cache;
  const int size = cache.head_size, lane = static_cast<int>(threadIdx.x), head = static_cast<int>(blockIdx.y);
  const int row = static_cast<int>(blockIdx.x), heads = args.num_query_heads + 2 * cache.num_kv_heads;
  const int position = args.positions[row], first_block = args.tables[row];
  if (first_block < 0) return;
  float* const x = args.qkv + (static_cast<std::int64_t>(row) * heads + head) * size;
  const int kv_head = (head - args.num_query_heads) % cache.num_kv_heads;
  const bool is_query = head < args.num_query_heads;
  const bool is_value = head >= args.num_query_heads + cache.num_kv_heads;
  const int* const table = args.block_tables + first_block;
  const int slot = position % cache.block_size;
  if (is_value) {
    write_slot<T>(cache, table[position / cache.block_size], true, kv_head, slot, x);
    return;
  }
  const float* weight = is_query ? args.query_norm : args.key_norm;
  float mean = 0, scale = 1;
  if (weight != nullptr) {
    weight += (is_query ? head : kv_head) * args.norm_stride;
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
  const auto normed = [&](int i) {
    return before ? (x[i] - mean) * scale * weight[i] : behind ? x[i] * scale : x[i];
  };
  const auto keep = [&](int i, float value) {
    if (behind) value *= weight[i];
    x[i] = is_query ? value * factor : value;
  };
  // A lane has both elements of a pair: nobody else reads what it writes.
  const int half = args.rotary_size / 2;
  const float* const turn =
      args.cos_sin + (half > 0 ? static_cast<std::int64_t>(args.turns[row]) * args.rotary_size : 0);
  for (int i = lane; i < half; i += 32) {
    const float a = normed(i), b = normed(i + half), c = turn[i], s = turn[i + half];
    keep(i, a * c - b * s);
    keep(i + half, b * c + a * s);
  }
  for (int i = args.rotary_size + lane; i < size; i += 32) keep(i, normed(i));
  if (is_query) return;
  __syncwarp();
  write_slot<T>(cache, table[position / cache.block_size], false, kv_head, slot, x);
}

__global__ void rope_and_write_f32(RopeAndWriteArgs args) { rope_and_write<float>(args); }
__global__ void rope_and_write_bf16(RopeAndWriteArgs args) { rope_and_write<Bf16>(args); }
__global__ void rope_and_write_i8(RopeAndWriteArgs args) { rope_and_write<Int8>(args); }

// grid: (pairs, blocks of threads that share a pair).
__global__ void copy_blocks(CopyBlocksArgs args) {
  const auto* const from =
      reinterpret_cast<const unsigned long long*>(args.cache + args.from[blockIdx.x] * args.block_bytes);
  auto* const to = reinterpret_cast<unsigned long long*>(args.cache + args.to[blockIdx.x] * args.block_bytes);
  const std::int64_t count = args.block_bytes / 8;
  for (std::int64_t i = blockIdx.y * blockDim.x + threadIdx.x; i < count; i += gridDim.y * blockDim.x)
    to[i] = from[i];
}

}  // namespace pagoda::device::kernels
