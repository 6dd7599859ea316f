#pragma once
// Plain forms of what a mixture does with pairs of a row and an expert: each pair by itself, over experts
// whose matrices lie anywhere.
#include "device/kernels/dialect.cuh"
#include "device/kernels/layer_args.h"
#include "device/kernels/stored_weights.cuh"

namespace pagoda::device::kernels {

// A warp a row, of which one lane chooses: few experts are chosen, one after the other.
__global__ void route_sparsely(RouteSparselyArgs args) {
  PAGODA_SHARED(float, shared);
  if (threadIdx.x != 0) return;
  constexpr float kLargest = 3.402823466e38f;
  float *const rank = shared, *const weight = shared + args.experts;
  const float* const logits = args.logits + static_cast<std::int64_t>(blockIdx.x) * args.experts;
  for (int i = 0; i < args.experts; ++i) {
    const float logit = logits[i];
    rank[i] = !(logit > -kLargest) ? -kLargest : logit > kLargest ? kLargest : logit;
    weight[i] = -1;
  }
  for (int n = 0; n < args.per_token; ++n) {
    int best = 0;
    for (int i = 1; i < args.experts; ++i)
      if (rank[i] > rank[best]) best = i;
    const float largest = rank[best];
    float sum = 0;
    for (int i = 0; i < args.experts; ++i) {
      const float magnitude = fabsf(rank[i]) > largest ? fabsf(rank[i]) : largest;
      if (weight[i] < 0 && !((largest - rank[i]) / magnitude > args.near)) sum += expf(rank[i] - largest);
    }
    weight[best] = args.scale / sum;
    rank[best] = -INFINITY;
  }
  std::int64_t to = static_cast<std::int64_t>(blockIdx.x) * args.per_token;
  for (int i = 0; i < args.experts; ++i) {
    if (weight[i] < 0) continue;
    args.chosen[to] = i;
    args.weights[to++] = weight[i];
  }
}

__global__ void scale_choices(ScaleChoicesArgs args) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < args.count) args.weights[i] *= args.scales[args.chosen[i]];
}

// A warp an output.
template <class T>
__device__ __forceinline__ void pair_product(const PairProductArgs& args) {
  const int pair = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x % 32);
  const int output = static_cast<int>(blockIdx.y) * kPairColumns + static_cast<int>(threadIdx.x / 32);
  if (output >= args.n) return;
  const int expert = args.chosen[pair];
  const float* const x = args.x.data + pair / args.pairs_of_row * args.x.stride;
  const T* const weight = stored_row(static_cast<const T*>(args.weights[expert]), output, args.k);
  const float factor = args.factors != nullptr ? args.factors[pair] : 1.0f;
  float sum = 0;
  for (int i = lane; i < args.k; i += 32) sum = fmaf(x[i] * factor, weight_of(weight, i), sum);
  sum = warp_sum(sum);
  if (lane != 0) return;
  if (args.biases != nullptr) sum += args.biases[expert][output];
  args.y.data[pair * args.y.stride + output] = sum;
}

__global__ void pair_product_f32(PairProductArgs args) { pair_product<float>(args); }
__global__ void pair_product_bf16(PairProductArgs args) { pair_product<Bf16>(args); }
__global__ void pair_product_q4(PairProductArgs args) { pair_product<Quantized4>(args); }
__global__ void pair_product_q8(PairProductArgs args) { pair_product<Quantized8>(args); }
__global__ void pair_product_q4_k(PairProductArgs args) { pair_product<Quantized4K>(args); }
__global__ void pair_product_q6_k(PairProductArgs args) { pair_product<Quantized6K>(args); }

}  // namespace pagoda::device::kernels
