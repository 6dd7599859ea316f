// Chooses the implementation and spreads rows over threads.
#include "kernels/elementwise.h"

#include "kernels/dequantize.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {

void rms_norm(const KernelContext& context, const float* x, std::int64_t num_rows, std::int64_t width,
              const float* weight, float eps, float* out) {
  for_ranges(context, num_rows, 8, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      reference::rms_norm(x + row * width, width, weight, eps, out + row * width);
    }
  });
}

void layer_norm(const KernelContext& context, const float* x, std::int64_t num_rows, std::int64_t width,
                const float* weight, const float* bias, float eps, float* out) {
  for_ranges(context, num_rows, 8, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      reference::layer_norm(x + row * width, width, weight, bias, eps, out + row * width);
    }
  });
}

void activate(const KernelContext& context, Activation activation, float* x, std::int64_t num_rows,
              std::int64_t width) {
  for_ranges(context, num_rows, 8, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first * width; i < last * width; ++i)
      x[i] = reference::activation(activation, x[i]);
  });
}

void activate_and_multiply(const KernelContext& context, Activation activation, const float* gate_up,
                           std::int64_t num_rows, std::int64_t width, float* out) {
  for_ranges(context, num_rows, 4, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const float* gate = gate_up + row * 2 * width;
      for (std::int64_t i = 0; i < width; ++i) {
        out[row * width + i] = reference::activation(activation, gate[i]) * gate[width + i];
      }
    }
  });
}

void embedding(const KernelContext& context, const TensorView& table, std::span<const std::int32_t> ids,
               float* out) {
  const std::int64_t width = table.columns();
  for_ranges(context, static_cast<std::int64_t>(ids.size()), 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      dequantize_row(table, ids[static_cast<std::size_t>(row)], out + row * width);
    }
  });
}

void rope(const KernelContext& context, float* x, std::int64_t num_rows, std::int64_t row_stride,
          std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
          std::span<const std::int32_t> positions, const float* cos_sin) {
  for_ranges(context, num_rows, 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t position = positions[static_cast<std::size_t>(row)];
      reference::rope(x + row * row_stride, num_heads, head_size, rotary_size,
                      cos_sin + position * rotary_size);
    }
  });
}

}  // namespace pagoda
