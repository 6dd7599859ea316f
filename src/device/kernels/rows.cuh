#pragma once
// Ops of rows by themselves. grid.x: rows; grid.y: blocks that share a row, of norms one; block.x: threads.
#include "device/kernels/dialect.cuh"
#include "device/kernels/stored_weights.cuh"

namespace pagoda::device::kernels {

// A thread's first element of its row, and how far it is to the next.
__device__ __forceinline__ int first_of_row() {
  return static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
}
__device__ __forceinline__ int step_in_row() { return static_cast<int>(gridDim.y * blockDim.x); }

template <class T>
__device__ __forceinline__ void embed_row(const EmbeddingArgs& args) {
  const std::int64_t row = args.ids[blockIdx.x] + args.first_row;
  const T* const from = stored_row(static_cast<const T*>(args.table), row, args.width);
  float* const to = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) {
    float weight = weight_of(from, i);
    if (sizeof(T) > 4 && args.rounded != 0) {
      Bf16 rounded;
      store(&rounded, weight);
      weight = to_float(rounded);
    }
    const float value = args.scale * weight;
    to[i] = args.accumulate != 0 ? to[i] + value : value;
  }
}

__global__ void embedding_f32(EmbeddingArgs args) { embed_row<float>(args); }
__global__ void embedding_bf16(EmbeddingArgs args) { embed_row<Bf16>(args); }
__global__ void embedding_q4(EmbeddingArgs args) { embed_row<Quantized4>(args); }
__global__ void embedding_q8(EmbeddingArgs args) { embed_row<Quantized8>(args); }
__global__ void embedding_q4_k(EmbeddingArgs args) { embed_row<Quantized4K>(args); }
__global__ void embedding_q6_k(EmbeddingArgs args) { embed_row<Quantized6K>(args); }

// Shared: a float a warp. A thread writes the elements that it alone reads.
__device__ __forceinline__ void normalize_row(const NormArgs& args, bool centred) {
  PAGODA_SHARED(float, sums);
  const int stride = args.stride > 0 ? args.stride : args.width, first = static_cast<int>(threadIdx.x),
            step = static_cast<int>(blockDim.x);
  const float* const x = args.x + static_cast<std::int64_t>(blockIdx.x) * stride;
  float* const out = args.out + static_cast<std::int64_t>(blockIdx.x) * stride;
  float mean = 0;
  if (centred) {
    float sum = 0;
    for (int i = first; i < args.width; i += step) sum += x[i];
    mean = block_sum(sum, sums) / static_cast<float>(args.width);
    __syncthreads();
  }
  float squares = 0;
  for (int i = first; i < args.width; i += step) squares = fmaf(x[i] - mean, x[i] - mean, squares);
  const float sum = block_sum(squares, sums);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(args.width) + args.eps);
  for (int i = first; i < args.width; i += step) {
    const float value = (x[i] - mean) * scale * (args.weight != nullptr ? args.weight[i] : 1.0f);
    out[i] = args.bias != nullptr ? value + args.bias[i] : value;
  }
}

__global__ void rms_norm(NormArgs args) { normalize_row(args, false); }
__global__ void layer_norm(NormArgs args) { normalize_row(args, true); }

__global__ void gather_rows(GatherRowsArgs args) {
  const float* const from = args.x + static_cast<std::int64_t>(args.rows[blockIdx.x]) * args.width;
  float* const to = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) to[i] = from[i];
}

__global__ void round_rows(RoundRowsArgs args) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * args.width;
#pragma unroll 4
  for (int i = first_of_row(); i < args.width; i += step_in_row()) {
    Bf16 rounded;
    store(&rounded, args.x[first + i]);
    args.out[first + i] = rounded.bits;
  }
}

__device__ __forceinline__ float function_of(Function function, float x) {
  switch (function) {
    case Function::silu:
      return x / (1.0f + expf(-x));
    case Function::gelu_tanh:
      return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    case Function::gelu_erf:
      return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
    case Function::relu:
      return x < 0 ? 0.0f : x;
    case Function::relu2:
      return x < 0 ? 0.0f : x * x;
    case Function::clamped_silu: {
      const float low = x < 7.0f ? x : 7.0f;
      return low / (1.0f + expf(-1.702f * low));
    }
  }
  return x;
}

__global__ void activate(ActivateArgs args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const float* const in = args.in + row * (args.gated != 0 ? 2 : 1) * args.width;
  float* const out = args.out + row * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) {
    float value = function_of(args.function, in[i]);
    if (args.gated != 0) {
      float up = in[args.width + i];
      if (args.function == Function::clamped_silu) up = (up < -7.0f ? -7.0f : up > 7.0f ? 7.0f : up) + 1.0f;
      value *= up;
    }
    out[i] = value;
  }
}

__global__ void add_rows(AddRowsArgs args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const float share = args.gate != nullptr ? args.scale / (1.0f + expf(-args.gate[blockIdx.x])) : args.scale;
  const float* const x = args.x + row * args.width;
  float* const y = args.y + row * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) y[i] = fmaf(share, x[i], y[i]);
}

__global__ void softcap(SoftcapArgs args) {
  float* const x = args.x + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) x[i] = args.cap * tanhf(x[i] / args.cap);
}

}  // namespace pagoda::device::kernels
