#pragma once
// Choices of experts that the router's kernels (mixture.cuh) do not support.
#include "device/kernels/dialect.cuh"
#include "device/kernels/layer_args.h"

namespace pagoda::device::kernels {

// One warp per row, of which one lane chooses: few experts are chosen, one after the other.
__global__ void route_sparsely(RouteSparselyArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, shared);
  if (threadIdx.x != 0) return;
  std::int64_t to = static_cast<std::int64_t>(blockIdx.x) * args.per_token;
  if (args.num_rows != nullptr && static_cast<int>(blockIdx.x) >= *args.num_rows) {
    for (int n = 0; n < args.per_token; ++n) args.chosen[to + n] = -1;
    return;
  }
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
  for (int i = 0; i < args.experts; ++i) {
    if (weight[i] < 0) continue;
    args.chosen[to] = i;
    args.weights[to++] = weight[i];
  }
}

__global__ void scale_choices(ScaleChoicesArgs args) {
  begin_kernel();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < args.count && args.chosen[i] >= 0) args.weights[i] *= args.scales[args.chosen[i]];
}

}  // namespace pagoda::device::kernels
