// Chooses the implementation and spreads rows over threads, in ranges worth the hand-out.
#include "kernels/elementwise.h"

#include "kernels/cpu/rows.h"
#include "kernels/dequantize.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {
namespace {

// Elements below which a second thread is not worth waking.
constexpr std::int64_t kGrain = 8192;

// body(row) for each row of `width` elements.
template <class Body>
void for_rows(const KernelContext& context, std::int64_t num_rows, std::int64_t width, const Body& body) {
  for_ranges(context, num_rows, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(width, 1)),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) body(row);
             });
}

bool plain(const KernelContext& context) { return context.backend == Backend::reference; }

}  // namespace

void rms_norm(const KernelContext& context, const float* x, std::int64_t num_rows, std::int64_t width,
              const float* weight, float eps, float* out) {
  const auto run = plain(context) ? reference::rms_norm : cpu::row_kernels(context.level).rms_norm;
  for_rows(context, num_rows, width,
           [&](std::int64_t row) { run(x + row * width, width, weight, eps, out + row * width); });
}

void layer_norm(const KernelContext& context, const float* x, std::int64_t num_rows, std::int64_t width,
                const float* weight, const float* bias, float eps, float* out) {
  const auto run = plain(context) ? reference::layer_norm : cpu::row_kernels(context.level).layer_norm;
  for_rows(context, num_rows, width,
           [&](std::int64_t row) { run(x + row * width, width, weight, bias, eps, out + row * width); });
}

void embedding(const KernelContext& context, const TensorView& table, std::span<const std::int32_t> ids,
               float* out) {
  const std::int64_t width = table.columns();
  for_rows(context, static_cast<std::int64_t>(ids.size()), width, [&](std::int64_t row) {
    dequantize_row(table, ids[static_cast<std::size_t>(row)], out + row * width);
  });
}

void rope(const KernelContext& context, float* x, std::int64_t num_rows, std::int64_t row_stride,
          std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
          std::span<const std::int32_t> positions, const float* cos_sin) {
  const auto run = plain(context) ? reference::rope : cpu::row_kernels(context.level).rope;
  for_rows(context, num_rows, static_cast<std::int64_t>(num_heads) * head_size, [&](std::int64_t row) {
    const std::int64_t position = positions[static_cast<std::size_t>(row)];
    run(x + row * row_stride, num_heads, head_size, rotary_size, cos_sin + position * rotary_size);
  });
}

void heads_to_unit(const KernelContext& context, float* x, std::int64_t num_rows, std::int64_t row_stride,
                   std::int32_t num_heads, std::int32_t head_size, float eps, float scale) {
  const auto run = plain(context) ? reference::heads_to_unit : cpu::row_kernels(context.level).heads_to_unit;
  for_rows(context, num_rows, static_cast<std::int64_t>(num_heads) * head_size,
           [&](std::int64_t row) { run(x + row * row_stride, num_heads, head_size, eps, scale); });
}

void gated_rms_norm(const KernelContext& context, const GatedNorm& norm, std::int64_t num_rows, float* x,
                    std::int64_t x_stride, const float* gate, std::int64_t gate_stride) {
  const auto run =
      plain(context) ? reference::gated_rms_norm : cpu::row_kernels(context.level).gated_rms_norm;
  for_rows(context, num_rows, static_cast<std::int64_t>(norm.num_groups) * norm.group_size,
           [&](std::int64_t row) { run(norm, x + row * x_stride, gate + row * gate_stride); });
}

void times_sigmoid(const KernelContext& context, std::int64_t num_rows, std::int64_t width, float* x,
                   std::int64_t x_stride, const float* gate, std::int64_t gate_stride) {
  const auto run = plain(context) ? reference::times_sigmoid : cpu::row_kernels(context.level).times_sigmoid;
  for_rows(context, num_rows, width,
           [&](std::int64_t row) { run(x + row * x_stride, gate + row * gate_stride, width); });
}

}  // namespace pagoda
