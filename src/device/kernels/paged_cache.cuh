#pragma once
// Keys and values on their way into the paged cache: norms of heads, rotation and the write to the slot, one
// pass over what the product of query, key and value gave (§5.1 of the paper, its first kernel); and copies
// of blocks for copy-on-write (its third).
#include "device/kernels/dialect.cuh"

namespace pagoda::device::kernels {

template <class T>
__device__ __forceinline__ T* cache_slot(const CacheArgs& cache, int block, bool value, int kv_head,
                                         int slot) {
  const std::int64_t head = static_cast<std::int64_t>(cache.block_size) * cache.head_size;
  return static_cast<T*>(cache.cache) + block * cache.block_elements + cache.layer_offset +
         ((value ? cache.num_kv_heads : 0) + kv_head) * head +
         static_cast<std::int64_t>(slot) * cache.head_size;
}

// A warp a head. grid: (rows, query + 2 KV heads); block: 32.
template <class T>
__device__ __forceinline__ void rope_and_write(const RopeAndWriteArgs& args) {
  const CacheArgs& cache = args.cache;
  const int size = cache.head_size, lane = static_cast<int>(threadIdx.x), head = static_cast<int>(blockIdx.y);
  const int row = static_cast<int>(blockIdx.x), heads = args.num_query_heads + 2 * cache.num_kv_heads;
  const int position = args.positions[row];
  float* const x = args.qkv + (static_cast<std::int64_t>(row) * heads + head) * size;
  const int kv_head = (head - args.num_query_heads) % cache.num_kv_heads;
  const bool is_query = head < args.num_query_heads;
  const bool is_value = head >= args.num_query_heads + cache.num_kv_heads;
  T* const slot =
      is_query ? nullptr
               : cache_slot<T>(cache, args.blocks[row], is_value, kv_head, position % cache.block_size);
  if (is_value) {
    for (int i = lane; i < size; i += 32) store(slot + i, x[i]);
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
  float warm = 1;
  if (is_query && args.warmth != 0)
    warm += args.warmth * log1pf(static_cast<float>((position + args.warm_offset) / args.warm_positions));
  const auto normed = [&](int i) {
    return before ? (x[i] - mean) * scale * weight[i] : behind ? x[i] * scale : x[i];
  };
  const auto keep = [&](int i, float value) {
    if (behind) value *= weight[i];
    if (is_query)
      x[i] = value * warm;
    else
      store(slot + i, value);
  };
  // A lane has both elements of a pair: nobody else reads what it writes.
  const int half = args.rotary_size / 2;
  const float* const turn = args.cos_sin + static_cast<std::int64_t>(position) * args.rotary_size;
  for (int i = lane; i < half; i += 32) {
    const float a = normed(i), b = normed(i + half), c = turn[i], s = turn[i + half];
    keep(i, a * c - b * s);
    keep(i + half, b * c + a * s);
  }
  for (int i = args.rotary_size + lane; i < size; i += 32) keep(i, normed(i));
}

__global__ void rope_and_write_f32(RopeAndWriteArgs args) { rope_and_write<float>(args); }
__global__ void rope_and_write_bf16(RopeAndWriteArgs args) { rope_and_write<Bf16>(args); }

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
