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
  const bool is_there = args.num_rows == 0 || (row >= 0 && row < args.num_rows);
  const T* const from = stored_row(static_cast<const T*>(args.table), is_there ? row : 0, args.width);
  float* const to = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) {
    float weight = is_there ? weight_of(from, i) : 0.0f;
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

// The sum of a row's elements less `mean`, or of their squares, by `threads` threads that have every
// `threads`-th element each: a thread's own ones ascending, then block_sum(). The same in all threads of the
// block, each of which stands for `kEach` of them, or one for one where it has as many or more. `shared` has
// a float for each warp of `threads`.
enum class RowTerms { values, squares };
template <RowTerms terms, int kEach>
__device__ __forceinline__ float row_sum(const float* x, int width, float mean, int threads, float* shared) {
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockDim.x);
  if (kEach > 1 || thread < threads) {
    float sums[kEach] = {};
#pragma unroll 4
    for (int first = thread; first < width; first += threads)
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int i = first + j * block;
        if (j > 0 && i >= width) continue;
        const float value = x[i] - mean;
        sums[j] = terms == RowTerms::squares ? fmaf(value, value, sums[j]) : sums[j] + value;
      }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const float sum = warp_sum(sums[j]);
      if (thread % 32 == 0) shared[(thread + j * block) / 32] = sum;
    }
  }
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < threads / 32; ++warp) sum += shared[warp];
  return sum;
}

// One element, normalized.
__device__ __forceinline__ float normalized(float x, float mean, float scale, float weight) {
  return (x - mean) * scale * weight;
}
__device__ __forceinline__ float scale_of_norm(float squares, int width, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
}

// Shared: a float a warp. A thread writes the elements that it alone reads.
__device__ __forceinline__ void normalize_row(const NormArgs& args, bool centred) {
  PAGODA_SHARED(float, sums);
  const int stride = args.stride > 0 ? args.stride : args.width, first = static_cast<int>(threadIdx.x),
            step = static_cast<int>(blockDim.x);
  const float* const x = args.x + static_cast<std::int64_t>(blockIdx.x) * stride;
  float* const out = args.out + static_cast<std::int64_t>(blockIdx.x) * stride;
  float mean = 0;
  if (centred) {
    mean = row_sum<RowTerms::values, 1>(x, args.width, 0, step, sums) / static_cast<float>(args.width);
    __syncthreads();
  }
  const float squares = row_sum<RowTerms::squares, 1>(x, args.width, mean, step, sums);
  const float scale = scale_of_norm(squares, args.width, args.eps);
  for (int i = first; i < args.width; i += step) {
    const float value = normalized(x[i], mean, scale, args.weight != nullptr ? args.weight[i] : 1.0f);
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
  const int row = static_cast<int>(blockIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(row) * args.width;
  const int end = args.slab_rows == 0 ? args.width : slab_width(args.width);
#pragma unroll 4
  for (int i = first_of_row(); i < end; i += step_in_row()) {
    Bf16 rounded;
    store(&rounded, i < args.width ? args.x[first + i] : 0.0f);
    args.out[args.slab_rows == 0 ? first + i : slab_place(args.slab_rows, row, i)] = rounded.bits;
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

// f(gate) * up
__device__ __forceinline__ float gated(Function function, float gate, float up) {
  if (function == Function::clamped_silu) up = (up < -7.0f ? -7.0f : up > 7.0f ? 7.0f : up) + 1.0f;
  return function_of(function, gate) * up;
}

__global__ void activate(ActivateArgs args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const float* const in = args.in + row * (args.gated != 0 ? 2 : 1) * args.width;
  float* const out = args.out + row * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row())
    out[i] =
        args.gated != 0 ? gated(args.function, in[i], in[args.width + i]) : function_of(args.function, in[i]);
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
