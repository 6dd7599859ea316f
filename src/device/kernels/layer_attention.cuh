#pragma once
// Paged attention in its simplest form: one warp per row and head goes through the row's tokens one after the
// other with the online softmax, so that a row's bits depend only on its own sequence and position. Supports
// heads of any size, values that are parts of keys (latent attention), and the block tables of any KV group.
#include "device/kernels/dialect.cuh"
#include "device/kernels/layer_args.h"

namespace pagoda::device::kernels {

template <class T>
__device__ __forceinline__ int padded_head(const KvPlaces& kv) {
  return sizeof(T) == 1 ? (kv.head_size + 3) / 4 * 4 : kv.head_size;
}

// The slots of a head's keys, or of its values, in the block of a token.
template <class T>
__device__ __forceinline__ T* head_of_block(const KvPlaces& kv, int block, bool value, int kv_head) {
  return reinterpret_cast<T*>(kv.cache + block * kv.block_bytes + (value ? kv.value_offset : 0) +
                              kv_head * kv.head_bytes);
}

__device__ __forceinline__ float* scale_of_slot(const KvPlaces& kv, Int8* slots, int slot) {
  return reinterpret_cast<float*>(slots + static_cast<std::int64_t>(kv.block_size) * padded_head<Int8>(kv)) +
         slot;
}

template <class T>
__device__ __forceinline__ void put_slot(const KvPlaces& kv, T* slots, int slot, bool value, const float* x) {
  T* const to = slots + static_cast<std::int64_t>(slot) * padded_head<T>(kv);
  const float scale = value ? kv.value_scale : kv.key_scale;
  for (int i = static_cast<int>(threadIdx.x); i < kv.head_size; i += 32)
    store(to + i, std::is_same_v<T, Float8> ? x[i] / scale : x[i]);
}
// As write_slot() in paged_cache.cuh.
template <>
__device__ __forceinline__ void put_slot<Int8>(const KvPlaces& kv, Int8* slots, int slot, bool,
                                               const float* x) {
  Int8* const to = slots + static_cast<std::int64_t>(slot) * padded_head<Int8>(kv);
  float largest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kv.head_size; i += 32)
    largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
  largest = warp_max(largest);
  if (largest < 1e-30f) largest = 0;
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < kv.head_size; i += 32)
    to[i].value = static_cast<std::int8_t>(rintf(x[i] * inverse));
  if (threadIdx.x == 0) *scale_of_slot(kv, slots, slot) = largest / 127.0f;
}

__device__ __forceinline__ int position_of(const SequenceRows& sequence, int row) {
  return sequence.context - sequence.num_rows + (row - sequence.first_row);
}

template <class T>
__device__ __forceinline__ void write_kv(const WriteKvArgs& args) {
  begin_kernel();
  const int row = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  if (args.row_sequences[row] < 0) return;
  const SequenceRows& sequence = args.sequences[args.row_sequences[row]];
  const int position = position_of(sequence, row);
  const int block = sequence.table[position / args.kv.block_size], slot = position % args.kv.block_size;
  const std::int64_t head = static_cast<std::int64_t>(kv_head) * args.kv.head_size;
  put_slot<T>(args.kv, head_of_block<T>(args.kv, block, false, kv_head), slot, false,
              args.key.data + row * args.key.stride + head);
  if (args.kv.value_offset != 0)
    put_slot<T>(args.kv, head_of_block<T>(args.kv, block, true, kv_head), slot, true,
                args.value.data + row * args.value.stride + head);
}

__global__ void write_kv_f32(WriteKvArgs args) { write_kv<float>(args); }
__global__ void write_kv_bf16(WriteKvArgs args) { write_kv<Bf16>(args); }
__global__ void write_kv_i8(WriteKvArgs args) { write_kv<Int8>(args); }
__global__ void write_kv_fp8(WriteKvArgs args) { write_kv<Float8>(args); }

template <class T>
__device__ __forceinline__ float slot_scale(const KvPlaces&, T*, int) {
  return 1;
}
__device__ __forceinline__ float slot_scale(const KvPlaces& kv, Int8* slots, int slot) {
  return *scale_of_slot(kv, slots, slot);
}

template <class T>
__device__ __forceinline__ void attend(const AttendArgs& args) {
  begin_kernel();
  constexpr int kElements = kMostValueSize / 32;
  const KvPlaces& kv = args.kv;
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            lane = static_cast<int>(threadIdx.x);
  if (args.row_sequences[row] < 0) return;
  const SequenceRows& sequence = args.sequences[args.row_sequences[row]];
  const int position = position_of(sequence, row),
            kv_head = head / (args.num_query_heads / args.num_kv_heads);
  const float* const query =
      args.query.data + row * args.query.stride + static_cast<std::int64_t>(head) * kv.head_size;
  int first = 0;
  if (args.window > 0) first = position >= args.window ? position - args.window + 1 : 0;
  if (args.chunks != 0 && args.window > 0) first = position / args.window * args.window;
  int last = position;
  if (args.both_ways != 0) {
    last = sequence.context - 1;
    if (args.window > 0 && position + args.window - 1 < last) last = position + args.window - 1;
  }
  float largest = args.sinks != nullptr ? args.sinks[head] : -INFINITY;
  float sum = args.sinks != nullptr ? 1.0f : 0.0f;
  float values[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) values[i] = 0;
  for (int token = first; token <= last; ++token) {
    const int block = sequence.table[token / kv.block_size], slot = token % kv.block_size;
    T* const keys = head_of_block<T>(kv, block, false, kv_head);
    T* const rows = kv.value_offset != 0 ? head_of_block<T>(kv, block, true, kv_head) : keys;
    const T* const key = keys + static_cast<std::int64_t>(slot) * padded_head<T>(kv);
    const T* const value = rows + static_cast<std::int64_t>(slot) * padded_head<T>(kv);
    float product = 0;
    for (int i = lane; i < kv.head_size; i += 32) product = fmaf(query[i], to_float(key[i]), product);
    float score = warp_sum(product) * args.scale * slot_scale(kv, keys, slot);
    if (args.softcap > 0) score = args.softcap * tanhf(score / args.softcap);
    if (args.slopes != nullptr) score -= args.slopes[head] * static_cast<float>(position - token);
    const float top = largest > score ? largest : score;
    const float keep = expf(largest - top), weight = expf(score - top);
    largest = top;
    sum = sum * keep + weight;
    const float factor = weight * slot_scale(kv, rows, slot);
#pragma unroll
    for (int i = 0; i < kElements; ++i)
      if (lane + 32 * i < args.value_size)
        values[i] = fmaf(factor, to_float(value[lane + 32 * i]), values[i] * keep);
  }
  float* const out =
      args.out.data + row * args.out.stride + static_cast<std::int64_t>(head) * args.value_size;
#pragma unroll
  for (int i = 0; i < kElements; ++i)
    if (lane + 32 * i < args.value_size)
      out[lane + 32 * i] = values[i] / sum * (std::is_same_v<T, Float8> ? kv.value_scale : 1.0f);
}

__global__ void attend_f32(AttendArgs args) { attend<float>(args); }
__global__ void attend_bf16(AttendArgs args) { attend<Bf16>(args); }
__global__ void attend_i8(AttendArgs args) { attend<Int8>(args); }
__global__ void attend_fp8(AttendArgs args) { attend<Float8>(args); }

}  // namespace pagoda::device::kernels
