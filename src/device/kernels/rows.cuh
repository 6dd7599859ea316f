#pragma once
// Ops on single rows. grid.x: rows; grid.y: blocks that share a row (one for norms); block.x: threads.
#include "device/kernels/dialect.cuh"
#include "device/kernels/launch_shapes.h"
#include "device/kernels/stored_weights.cuh"
#include "device/kernels/tile_words.cuh"

namespace pagoda::device::kernels {

// A thread's first element of its row, and the distance to its next.
__device__ __forceinline__ int first_of_row() {
  return static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
}
__device__ __forceinline__ int step_in_row() { return static_cast<int>(gridDim.y * blockDim.x); }

// True if neighbours in rows can be loaded and stored four at a time. Null stands for an absent array.
__device__ __forceinline__ bool in_fours(int width, const void* a, const void* b, const void* c = nullptr,
                                         const void* d = nullptr) {
  const auto at = [](const void* x) { return reinterpret_cast<std::uintptr_t>(x); };
  return width % 4 == 0 && (at(a) | at(b) | at(c) | at(d)) % 16 == 0;
}

// Elements i to i + 3 of a row; zero beyond its end. `fours`: in_fours() of the row.
__device__ __forceinline__ FourFloats load_four(const float* x, int i, int width, bool fours) {
  FourFloats four = {};
  if (fours) {
    if (i < width) four = load_whole<FourFloats>(x + i);
    return four;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (i + j < width) four.at[j] = x[i + j];
  return four;
}
__device__ __forceinline__ void store_four(float* x, int i, int width, bool fours, const FourFloats& four) {
  if (fours) return store_whole(x + i, four);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (i + j < width) x[i + j] = four.at[j];
}
// Likewise, rounded to the nearest bfloat16, to row `row` of RoundRowsArgs::out; in slabs also beyond the
// end.
__device__ __forceinline__ void store_rounded(std::uint16_t* out, int slab_rows, int row, int i, int width,
                                              bool fours, const FourFloats& four) {
  const auto place = [&](int at) {
    return slab_rows == 0 ? static_cast<std::int64_t>(row) * width + at : slab_place(slab_rows, row, at);
  };
  if (fours)
    return store_whole(out + place(i),
                       TwoWords{{pack(four.at[0], four.at[1]), pack(four.at[2], four.at[3])}});
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (slab_rows == 0 && i + j >= width) continue;
    Bf16 rounded;
    store(&rounded, four.at[j]);
    out[place(i + j)] = rounded.bits;
  }
}

template <class T>
__device__ __forceinline__ void embed_row(const EmbeddingArgs& args) {
  begin_kernel();
  const std::int64_t row = args.ids[blockIdx.x] + args.first_row;
  const bool is_there = args.num_rows == 0 || (row >= 0 && row < args.num_rows);
  const T* const from = stored_row(static_cast<const T*>(args.table), is_there ? row : 0, args.width);
  float* const to = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) {
    float weight = is_there ? weight_of(from, i, args.width) : 0.0f;
    if ((sizeof(T) > 4 || kFloats8<T> || kScalesOfRows<T>) && args.rounded != 0) {
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
__global__ void embedding_q5_k(EmbeddingArgs args) { embed_row<Quantized5K>(args); }
__global__ void embedding_q6_k(EmbeddingArgs args) { embed_row<Quantized6K>(args); }
__global__ void embedding_fp8(EmbeddingArgs args) { embed_row<Float8>(args); }
__global__ void embedding_fp8_blocks(EmbeddingArgs args) { embed_row<Float8Blocks>(args); }
__global__ void embedding_mxfp4(EmbeddingArgs args) { embed_row<Float4>(args); }
__global__ void embedding_nvfp4(EmbeddingArgs args) { embed_row<Float4Scaled>(args); }

// The sum of a row's elements minus `mean`, or of their squares, as by `threads` threads that have every
// `threads`-th element each: a thread's own elements ascending, then block_sum(). Same result in all threads
// of the block. Each thread stands for `kEach` of `threads`, or for one if the block has at least as many.
// `shared` has a float for each warp of `threads`.
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

// One normalised element.
__device__ __forceinline__ float normalized(float x, float mean, float scale, float weight) {
  return (x - mean) * scale * weight;
}
__device__ __forceinline__ float scale_of_norm(float squares, int width, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
}

// A block's row, of which a thread has every (4 * threads)-th group of four neighbours. The first ones stay
// in its registers.
struct RowOfFours {
  static constexpr int kHeld = 8;
  const float* x;
  int width;
  bool fours;
  FourFloats held[kHeld];

  __device__ __forceinline__ RowOfFours(const float* row, int row_width, bool in_fours)
      : x(row), width(row_width), fours(in_fours) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) held[j] = load_four(x, first(j), width, fours);
  }
  static __device__ __forceinline__ int first(int j) {
    return 4 * static_cast<int>(threadIdx.x + j * blockDim.x);
  }
  // Calls use(index of the four in this thread's registers, or -1 beyond them; its first element; the four).
  template <class Use>
  __device__ __forceinline__ void each(const Use& use) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j)
      if (first(j) < width) use(j, first(j), held[j]);
    for (int j = kHeld; first(j) < width; ++j) use(-1, first(j), load_four(x, first(j), width, fours));
  }
  // row_sum() as by 4 * blockDim.x threads; each thread of this block stands for four neighbouring ones.
  template <RowTerms terms>
  __device__ __forceinline__ float sum(float mean, float* shared) const {
    float sums[4] = {};
    each([&](int, int i, const FourFloats& four) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (!fours && i + k >= width) continue;
        const float value = four.at[k] - mean;
        sums[k] = terms == RowTerms::squares ? fmaf(value, value, sums[k]) : sums[k] + value;
      }
    });
    for (int other = 4; other > 0; other /= 2)
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[k] += __shfl_xor_sync(kAllLanes, sums[k], other);
    if (threadIdx.x % 8 == 0) shared[threadIdx.x / 8] = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    __syncthreads();
    float all = 0;
    for (unsigned warp = 0; warp < blockDim.x / 8; ++warp) all += shared[warp];
    return all;
  }
};

// Shared: a float for each eight threads. A thread only writes elements that no other thread reads.
__device__ __forceinline__ void normalize_row(const NormArgs& args, bool centred) {
  begin_kernel();
  PAGODA_SHARED(float, sums);
  const int width = args.width, stride = args.stride > 0 ? args.stride : width,
            row = static_cast<int>(blockIdx.x);
  const float* const x = args.x + static_cast<std::int64_t>(row) * stride;
  float* const out = args.out != nullptr ? args.out + static_cast<std::int64_t>(row) * stride : nullptr;
  const RowOfFours values(x, width, in_fours(width, x, out, args.weight, args.bias));
  FourFloats weights[RowOfFours::kHeld];
#pragma unroll
  for (int j = 0; j < RowOfFours::kHeld; ++j)
    if (args.weight != nullptr)
      weights[j] = load_four(args.weight, RowOfFours::first(j), width, values.fours);
  float mean = 0;
  if (centred) {
    mean = values.sum<RowTerms::values>(0, sums) / static_cast<float>(width);
    __syncthreads();
  }
  const float scale = scale_of_norm(values.sum<RowTerms::squares>(mean, sums), width, args.eps);
  values.each([&](int j, int i, FourFloats four) {
    FourFloats weight = {{1, 1, 1, 1}};
    if (args.weight != nullptr) weight = j >= 0 ? weights[j] : load_four(args.weight, i, width, values.fours);
#pragma unroll
    for (int k = 0; k < 4; ++k) four.at[k] = normalized(four.at[k], mean, scale, weight.at[k]);
    if (args.bias != nullptr) {
      const FourFloats bias = load_four(args.bias, i, width, values.fours);
#pragma unroll
      for (int k = 0; k < 4; ++k) four.at[k] += bias.at[k];
    }
    if (out != nullptr) store_four(out, i, width, values.fours, four);
    if (args.rounded != nullptr)
      store_rounded(args.rounded, args.slab_rows, row, i, width, values.fours, four);
  });
  if (args.rounded == nullptr || args.slab_rows == 0) return;
  for (int i = width + RowOfFours::first(0); i < slab_width(width); i += 4 * static_cast<int>(blockDim.x))
    store_rounded(args.rounded, args.slab_rows, row, i, width, true, {});
}

__global__ void rms_norm(NormArgs args) { normalize_row(args, false); }
__global__ void layer_norm(NormArgs args) { normalize_row(args, true); }

__global__ void gather_rows(GatherRowsArgs args) {
  begin_kernel();
  const float* const from = args.x + static_cast<std::int64_t>(args.rows[blockIdx.x]) * args.width;
  float* const to = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) to[i] = from[i];
}

// A thread's first four neighbours of its row, and the distance to its next four.
__device__ __forceinline__ int first_four_of_row() { return 4 * first_of_row(); }
__device__ __forceinline__ int fours_in_row() { return 4 * step_in_row(); }

__global__ void round_rows(RoundRowsArgs args) {
  begin_kernel();
  const int row = static_cast<int>(blockIdx.x);
  const float* const x = args.x + static_cast<std::int64_t>(row) * args.width;
  const bool fours = in_fours(args.width, x, args.out);
  const int end = args.slab_rows == 0 ? args.width : slab_width(args.width);
#pragma unroll 2
  for (int i = first_four_of_row(); i < end; i += fours_in_row())
    store_rounded(args.out, args.slab_rows, row, i, args.width, fours, load_four(x, i, args.width, fours));
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
  begin_kernel();
  const int width = args.width, row = static_cast<int>(blockIdx.x);
  const float* const in = args.in + static_cast<std::int64_t>(row) * (args.gated != 0 ? 2 : 1) * width;
  float* const out = args.out != nullptr ? args.out + static_cast<std::int64_t>(row) * width : nullptr;
  const bool fours = in_fours(width, in, out, args.rounded);
  const int end = args.rounded == nullptr || args.slab_rows == 0 ? width : slab_width(width);
#pragma unroll 2
  for (int i = first_four_of_row(); i < end; i += fours_in_row()) {
    FourFloats four = load_four(in, i, width, fours);
    const FourFloats up = args.gated != 0 ? load_four(in + width, i, width, fours) : FourFloats{};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      four.at[k] = args.gated != 0 ? gated(args.function, four.at[k], up.at[k])
                                   : function_of(args.function, four.at[k]);
    if (out != nullptr && i < width) store_four(out, i, width, fours, four);
    if (args.rounded != nullptr) store_rounded(args.rounded, args.slab_rows, row, i, width, fours, four);
  }
}

__global__ void add_rows(AddRowsArgs args) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const float share = args.gate != nullptr ? args.scale / (1.0f + expf(-args.gate[blockIdx.x])) : args.scale;
  const float* const x = args.x + row * args.width;
  float* const y = args.y + row * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) y[i] = fmaf(share, x[i], y[i]);
}

__global__ void softcap(SoftcapArgs args) {
  begin_kernel();
  float* const x = args.x + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = first_of_row(); i < args.width; i += step_in_row()) x[i] = args.cap * tanhf(x[i] / args.cap);
}

}  // namespace pagoda::device::kernels
