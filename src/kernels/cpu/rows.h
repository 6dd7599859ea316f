#pragma once
// The row-wise ops of one instruction set: each call processes one row, in an order fixed by the row's width.
// Contracts as in elementwise.h and logits.h.
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/backend.h"
#include "kernels/elementwise.h"

namespace pagoda::cpu {

struct RowKernels {
  void (*rms_norm)(const float* x, std::int64_t width, const float* weight, float eps, float* out);
  void (*layer_norm)(const float* x, std::int64_t width, const float* weight, const float* bias, float eps,
                     float* out);
  // f(x) for num_rows rows. gated: x alternates 16 gates and their 16 factors, and out = f(gate) * factor.
  // Reads x up to a multiple of 16.
  void (*activate)(Activation activation, bool gated, const float* x, std::int64_t x_stride,
                   std::int64_t num_rows, std::int64_t width, float* out, std::int64_t out_stride);
  void (*rope)(float* x, std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
               const float* cos_sin);

  void (*heads_to_unit)(float* x, std::int32_t num_heads, std::int32_t head_size, float eps, float scale);
  void (*gated_rms_norm)(const GatedNorm& norm, float* x, const float* gate);
  void (*times_sigmoid)(float* x, const float* gate, std::int64_t width);

  float (*max)(const float* x, std::int64_t n);                   // NaNs are skipped
  float (*sum_exp)(const float* x, std::int64_t n, float shift);  // sum of exp(x - shift)
  // The first index >= begin with x > threshold; n if there is none.
  std::int64_t (*find_greater)(const float* x, std::int64_t begin, std::int64_t n, float threshold);
  std::int64_t (*count_greater)(const float* x, std::int64_t n, float threshold);

  static const RowKernels portable, avx2, avx512;
};

}  // namespace pagoda::cpu
