// Chooses the implementation and spreads rows over threads, in ranges large enough to be worth it.
#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/cpu/level.h"
#include "kernels/cpu/rows.h"
#include "kernels/dequantize.h"
#include "kernels/device/ops.h"
#include "kernels/for_rows.h"
#include "kernels/reference/reference.h"
#include "kernels/rows.h"

namespace pagoda {
namespace {

// The reference function, or the one for the processor's instruction set.
template <class Function>
Function function_of(const KernelContext& context, Function plain, Function cpu::RowKernels::* own) {
  return context.backend == Backend::reference ? plain : cpu::kernels_of<cpu::RowKernels>(context.level).*own;
}

}  // namespace

void rms_norm(const KernelContext& context, const Buffer& x, std::int64_t num_rows, std::int64_t width,
              const float* weight, float eps, const Buffer& out) {
  if (on_device(context))
    return device_ops::norm(*context.device, device::GroupNorm::rms, x, num_rows, width, weight, nullptr, eps,
                            out);
  const auto run = function_of(context, reference::rms_norm, &cpu::RowKernels::rms_norm);
  for_rows(context, num_rows, width,
           [&](std::int64_t row) { run(floats(x, row), width, weight, eps, floats(out, row)); });
}

void layer_norm(const KernelContext& context, const Buffer& x, std::int64_t num_rows, std::int64_t width,
                const float* weight, const float* bias, float eps, const Buffer& out) {
  if (on_device(context))
    return device_ops::norm(*context.device, device::GroupNorm::layer, x, num_rows, width, weight, bias, eps,
                            out);
  const auto run = function_of(context, reference::layer_norm, &cpu::RowKernels::layer_norm);
  for_rows(context, num_rows, width,
           [&](std::int64_t row) { run(floats(x, row), width, weight, bias, eps, floats(out, row)); });
}

void embedding(const KernelContext& context, const TensorView& table, std::span<const std::int32_t> ids,
               const Buffer& out, const EmbeddedIds& own) {
  if (on_device(context)) return device_ops::embedding(*context.device, table, ids, out, own);
  const std::int64_t width = table.columns();
  for_rows(context, static_cast<std::int64_t>(ids.size()), width, [&](std::int64_t row) {
    const std::int64_t id = ids[static_cast<std::size_t>(row)];
    if (own.has(id))
      dequantize_row(table, id - own.first_id, floats(out, row));
    else
      std::fill_n(floats(out, row), width, 0.0f);
  });
}

void rope(const KernelContext& context, const Buffer& x, std::int64_t num_rows, std::int32_t num_heads,
          std::int32_t head_size, std::int32_t rotary_size, std::span<const std::int32_t> positions,
          const Buffer& cos_sin) {
  if (on_device(context))
    return device_ops::rope(*context.device, x, num_rows, num_heads, head_size, rotary_size, positions,
                            cos_sin);
  const auto run = function_of(context, reference::rope, &cpu::RowKernels::rope);
  for_rows(context, num_rows, static_cast<std::int64_t>(num_heads) * head_size, [&](std::int64_t row) {
    run(floats(x, row), num_heads, head_size, rotary_size,
        floats(cos_sin, positions[static_cast<std::size_t>(row)]));
  });
}

void heads_to_unit(const KernelContext& context, const Buffer& x, std::int64_t num_rows,
                   std::int32_t num_heads, std::int32_t head_size, float eps, float scale) {
  if (on_device(context))
    return device_ops::heads_to_unit(*context.device, x, num_rows, num_heads, head_size, eps, scale);
  const auto run = function_of(context, reference::heads_to_unit, &cpu::RowKernels::heads_to_unit);
  for_rows(context, num_rows, static_cast<std::int64_t>(num_heads) * head_size,
           [&](std::int64_t row) { run(floats(x, row), num_heads, head_size, eps, scale); });
}

void gated_rms_norm(const KernelContext& context, const GatedNorm& norm, std::int64_t num_rows,
                    const Buffer& x, const Buffer& gate) {
  if (on_device(context)) return device_ops::gated_rms_norm(*context.device, norm, num_rows, x, gate);
  const auto run = function_of(context, reference::gated_rms_norm, &cpu::RowKernels::gated_rms_norm);
  for_rows(context, num_rows, static_cast<std::int64_t>(norm.num_groups) * norm.group_size,
           [&](std::int64_t row) { run(norm, floats(x, row), floats(gate, row)); });
}

void times_sigmoid(const KernelContext& context, std::int64_t num_rows, std::int64_t width, const Buffer& x,
                   const Buffer& gate) {
  if (on_device(context))
    return times_gates(context, {num_rows, width}, GateFunction::sigmoid, width, gate, x);
  const auto run = function_of(context, reference::times_sigmoid, &cpu::RowKernels::times_sigmoid);
  for_rows(context, num_rows, width,
           [&](std::int64_t row) { run(floats(x, row), floats(gate, row), width); });
}

}  // namespace pagoda
