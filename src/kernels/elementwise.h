#pragma once
// Row-wise ops of a transformer block that have an implementation per instruction set; all others are in
// rows.h. float32, [num_rows, width]; the rows of a buffer may be farther apart than `width`.
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/embedded_ids.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// out = x / sqrt(mean(x^2) + eps) * weight
void rms_norm(const KernelContext& context, const Buffer& x, std::int64_t num_rows, std::int64_t width,
              const float* weight, float eps, const Buffer& out);
// out = (x - mean) / sqrt(variance + eps) * weight + bias; weight and bias may be null.
void layer_norm(const KernelContext& context, const Buffer& x, std::int64_t num_rows, std::int64_t width,
                const float* weight, const float* bias, float eps, const Buffer& out);

// out[r] = the dequantised row of ids[r] in the table; zeros if the row belongs to another rank.
void embedding(const KernelContext& context, const TensorView& table, std::span<const std::int32_t> ids,
               const Buffer& out, const EmbeddedIds& own = {});

// Rotary embedding in half-rotation form (Hugging Face layout), in place on x [num_rows, num_heads,
// head_size]. cos_sin [position][rotary_size] holds the cosines, then the sines.
void rope(const KernelContext& context, const Buffer& x, std::int64_t num_rows, std::int32_t num_heads,
          std::int32_t head_size, std::int32_t rotary_size, std::span<const std::int32_t> positions,
          const Buffer& cos_sin);

// x = scale * x / sqrt(sum(x^2) + eps) for each head, in place on the same layout as rope().
void heads_to_unit(const KernelContext& context, const Buffer& x, std::int64_t num_rows,
                   std::int32_t num_heads, std::int32_t head_size, float eps, float scale);

// Gated RMS norm of groups of a row: norm(x * silu(gate)) if gate_first, otherwise norm(x) * silu(gate).
struct GatedNorm {
  std::int32_t num_groups = 1, group_size = 0;
  const float* weight = nullptr;  // null: gate only, no norm
  // True: weight is [num_groups, group_size]; false: [group_size], shared by all groups.
  bool own_weights = false;
  bool gate_first = false;
  float eps = 0;
};
// In place on x [num_rows, num_groups, group_size]; gate has the same shape.
void gated_rms_norm(const KernelContext& context, const GatedNorm& norm, std::int64_t num_rows,
                    const Buffer& x, const Buffer& gate);

// x *= sigmoid(gate), in place on x [num_rows, width].
void times_sigmoid(const KernelContext& context, std::int64_t num_rows, std::int64_t width, const Buffer& x,
                   const Buffer& gate);

}  // namespace pagoda
