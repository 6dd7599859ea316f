#pragma once
// The row-wise ops of one instruction set: each works on one row, in an order fixed by the row's width.
// Contracts as in elementwise.h and logits.h.
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/elementwise.h"

namespace pagoda::cpu {

struct RowKernels {
  void (*rms_norm)(const float* x, std::int64_t width, const float* weight, float eps, float* out);
  void (*layer_norm)(const float* x, std::int64_t width, const float* weight, const float* bias, float eps,
                     float* out);
  // out = f(x), times `factor` where that is not null; out may be x.
  void (*activate)(Activation activation, const float* x, const float* factor, std::int64_t width,
                   float* out);
  void (*rope)(float* x, std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
               const float* cos_sin);

  float (*max)(const float* x, std::int64_t n);                   // n > 0
  float (*sum_exp)(const float* x, std::int64_t n, float shift);  // sum of exp(x - shift)
  // The first index >= begin with x > threshold; n when there is none.
  std::int64_t (*find_greater)(const float* x, std::int64_t begin, std::int64_t n, float threshold);
  std::int64_t (*count_greater)(const float* x, std::int64_t n, float threshold);
};

const RowKernels& row_kernels_avx512();
const RowKernels& row_kernels_avx2();
const RowKernels& row_kernels_portable();
const RowKernels& row_kernels(CpuLevel level);

}  // namespace pagoda::cpu
