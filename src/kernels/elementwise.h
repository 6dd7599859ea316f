#pragma once
// The small row-wise ops of a transformer block. float32, row-major, [num_rows, width].
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// out = x / sqrt(mean(x^2) + eps) * weight
void rms_norm(const KernelContext& context, const float* x, std::int64_t num_rows, std::int64_t width,
              const float* weight, float eps, float* out);
// out = (x - mean) / sqrt(variance + eps) * weight + bias; weight and bias may be null.
void layer_norm(const KernelContext& context, const float* x, std::int64_t num_rows, std::int64_t width,
                const float* weight, const float* bias, float eps, float* out);

// out[r] = table[ids[r]], dequantised. ids are in range (checked where they enter).
void embedding(const KernelContext& context, const TensorView& table, std::span<const std::int32_t> ids,
               float* out);

// Rotary embedding, half-rotation form (Hugging Face layout), in place on x [num_rows, num_heads, head_size]
// with `row_stride` floats from row to row; cos_sin [position][rotary_size] holds cos then sin halves.
void rope(const KernelContext& context, float* x, std::int64_t num_rows, std::int64_t row_stride,
          std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
          std::span<const std::int32_t> positions, const float* cos_sin);

}  // namespace pagoda
