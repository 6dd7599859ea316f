#pragma once
// Ops of rows by themselves: a block of threads a row. grid.x: rows; block.x: threads.
#include "device/kernels/dialect.cuh"

namespace pagoda::device::kernels {

template <class T>
__device__ __forceinline__ void embed_row(const EmbeddingArgs& args) {
  const T* const from =
      static_cast<const T*>(args.table) + static_cast<std::int64_t>(args.ids[blockIdx.x]) * args.width;
  float* const to = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x))
    to[i] = args.scale * to_float(from[i]);
}

__global__ void embedding_f32(EmbeddingArgs args) { embed_row<float>(args); }
__global__ void embedding_bf16(EmbeddingArgs args) { embed_row<Bf16>(args); }

// Shared: a float a warp.
__global__ void rms_norm(RmsNormArgs args) {
  PAGODA_SHARED(float, sums);
  const float* const x = args.x + static_cast<std::int64_t>(blockIdx.x) * args.width;
  float* const out = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x))
    squares = fmaf(x[i], x[i], squares);
  const float sum = block_sum(squares, sums);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(args.width) + args.eps);
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x))
    out[i] = x[i] * scale * args.weight[i];
}

__global__ void gather_rows(GatherRowsArgs args) {
  const float* const from = args.x + static_cast<std::int64_t>(args.rows[blockIdx.x]) * args.width;
  float* const to = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x))
    to[i] = from[i];
}

__global__ void silu_mul(SiluMulArgs args) {
  const float* const in = args.in + static_cast<std::int64_t>(blockIdx.x) * 2 * args.width;
  float* const out = args.out + static_cast<std::int64_t>(blockIdx.x) * args.width;
  for (int i = static_cast<int>(threadIdx.x); i < args.width; i += static_cast<int>(blockDim.x)) {
    const float gate = in[i];
    out[i] = gate / (1.0f + expf(-gate)) * in[args.width + i];
  }
}

}  // namespace pagoda::device::kernels
