// Chooses the implementation of the row-wise ops; also holds their fast forms, which compilers vectorise.
#include "kernels/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/activation.h"
#include "kernels/device/ops.h"
#include "kernels/for_rows.h"
#include "kernels/reference/rows.h"

namespace pagoda {
namespace {

using device::RowOp;
using device_ops::strided;

bool by_reference(const KernelContext& context) { return context.backend == Backend::reference; }

float gelu(float x) {
  const float inner = std::sqrt(2.0f / std::numbers::pi_v<float>) * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + std::tanh(inner));
}

}  // namespace

void zero_rows(const KernelContext& context, RowShape shape, const Buffer& out) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape, {.op = RowOp::zero, .y = strided(out)});
  for_rows(context, shape.num_rows, shape.width,
           [&](std::int64_t row) { std::fill_n(floats(out, row), shape.width, 0.0f); });
}

void copy_rows(const KernelContext& context, RowShape shape, const Buffer& from, const Buffer& to) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::copy, .y = strided(to), .a = strided(from)});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    std::memcpy(floats(to, row), floats(from, row), static_cast<std::size_t>(shape.width) * sizeof(float));
  });
}

void gather_rows(const KernelContext& context, std::span<const std::int32_t> rows, std::int64_t width,
                 const Buffer& x) {
  if (on_device(context)) return device_ops::gather_rows(*context.device, rows, width, x);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto to = static_cast<std::int64_t>(i);
    if (rows[i] != to)
      std::memmove(floats(x, to), floats(x, rows[i]), static_cast<std::size_t>(width) * sizeof(float));
  }
}

void scale_rows(const KernelContext& context, RowShape shape, float factor, const Buffer& x) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::scale, .y = strided(x), .factor = factor});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    float* const values = floats(x, row);
    for (std::int64_t i = 0; i < shape.width; ++i) values[i] *= factor;
  });
}

void add_rows(const KernelContext& context, RowShape shape, float factor, const Buffer& from,
              const Buffer& to) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::add, .y = strided(to), .a = strided(from), .factor = factor});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    const float* const x = floats(from, row);
    float* const y = floats(to, row);
    for (std::int64_t i = 0; i < shape.width; ++i) y[i] += factor * x[i];
  });
}

void add_sum(const KernelContext& context, RowShape shape, const Buffer& a, const Buffer& b,
             const Buffer& to) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::add_sum, .y = strided(to), .a = strided(a), .b = strided(b)});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    const float *const first = floats(a, row), *const second = floats(b, row);
    float* const y = floats(to, row);
    for (std::int64_t i = 0; i < shape.width; ++i) y[i] += first[i] + second[i];
  });
}

void join_rows(const KernelContext& context, RowShape shape, const Buffer& from, float factor,
               const Buffer& to) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::join, .y = strided(to), .a = strided(from), .factor = factor});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    const float* const x = floats(from, row);
    float* const y = floats(to, row);
    for (std::int64_t i = 0; i < shape.width; ++i) y[i] = (y[i] + x[i]) * factor;
  });
}

void add_vector(const KernelContext& context, RowShape shape, const float* vector, const Buffer& x) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::add_vector, .y = strided(x), .vector = vector});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    float* const values = floats(x, row);
    for (std::int64_t i = 0; i < shape.width; ++i) values[i] += vector[i];
  });
}

void times_vector(const KernelContext& context, RowShape shape, const Buffer& x, const float* vector,
                  const Buffer& out) {
  if (on_device(context))
    return device_ops::row_op(
        *context.device, shape,
        {.op = RowOp::times_vector, .y = strided(out), .a = strided(x), .vector = vector});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    const float* const from = floats(x, row);
    float* const to = floats(out, row);
    for (std::int64_t i = 0; i < shape.width; ++i) to[i] = from[i] * vector[i];
  });
}

void add_share(const KernelContext& context, RowShape shape, float factor, const Buffer& gate,
               const Buffer& from, const Buffer& to) {
  if (on_device(context))
    return device_ops::row_op(
        *context.device, shape,
        {.op = RowOp::add_share, .y = strided(to), .a = strided(from), .b = strided(gate), .factor = factor});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    if (by_reference(context)) return reference::add_share(shape, factor, gate, from, to, row);
    const float share = gate ? factor * (1.0f / (1.0f + std::exp(-*floats(gate, row)))) : factor;
    const float* const x = floats(from, row);
    float* const y = floats(to, row);
    for (std::int64_t i = 0; i < shape.width; ++i) y[i] += share * x[i];
  });
}

void times_sum(const KernelContext& context, RowShape shape, const Buffer& a, float b_factor, const Buffer& b,
               float factor, const Buffer& x) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::times_sum,
                               .y = strided(x),
                               .a = strided(a),
                               .b = strided(b),
                               .factor = factor,
                               .second = b_factor});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    const float *const first = floats(a, row), *const second = floats(b, row);
    float* const y = floats(x, row);
    for (std::int64_t i = 0; i < shape.width; ++i) y[i] *= (first[i] + b_factor * second[i]) * factor;
  });
}

void times_gates(const KernelContext& context, RowShape shape, GateFunction function, std::int64_t num_gates,
                 const Buffer& gate, const Buffer& x) {
  const std::int64_t each = shape.width / num_gates;
  if (on_device(context))
    return device_ops::row_op(
        *context.device, shape,
        {.op = function == GateFunction::sigmoid ? RowOp::times_sigmoid : RowOp::times_softplus,
         .y = strided(x),
         .a = strided(gate),
         .each = static_cast<std::int32_t>(each)});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    if (by_reference(context)) return reference::times_gates(shape, function, num_gates, gate, x, row);
    const float* const gates = floats(gate, row);
    float* const y = floats(x, row);
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const float g = gates[i / each];
      y[i] *= function == GateFunction::sigmoid ? 1 / (1 + std::exp(-g)) : softplus(g);
    }
  });
}

float PositionScale::at(std::int32_t position) const {
  const std::int32_t times = (position + offset) / positions;
  return static_cast<float>(1 + beta * std::log1p(static_cast<double>(times)));
}

void scale_by_position(const KernelContext& context, RowShape shape, const PositionScale& scale,
                       std::span<const std::int32_t> positions, const Buffer& x) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::by_position,
                               .y = strided(x),
                               .positions = context.device->there(positions),
                               .beta = scale.beta,
                               .offset = scale.offset,
                               .period = scale.positions});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    const float factor = scale.at(positions[static_cast<std::size_t>(row)]);
    if (factor == 1) return;
    float* const values = floats(x, row);
    for (std::int64_t i = 0; i < shape.width; ++i) values[i] *= factor;
  });
}

void cap_rows(const KernelContext& context, RowShape shape, float cap, const Buffer& x) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape, {.op = RowOp::cap, .y = strided(x), .factor = cap});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    float* const values = floats(x, row);
    if (by_reference(context)) return reference::cap(shape.width, cap, values);
    for (std::int64_t i = 0; i < shape.width; ++i) values[i] = cap * std::tanh(values[i] / cap);
  });
}

void xielu(const KernelContext& context, RowShape shape, const XieluCurve& curve, const Buffer& x) {
  if (on_device(context))
    return device_ops::row_op(*context.device, shape,
                              {.op = RowOp::xielu,
                               .y = strided(x),
                               .beta = curve.beta,
                               .eps = curve.eps,
                               .positive = curve.positive,
                               .negative = curve.negative});
  for_rows(context, shape.num_rows, shape.width, [&](std::int64_t row) {
    float* const values = floats(x, row);
    if (by_reference(context)) return reference::xielu(shape.width, curve, values);
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const float v = values[i];
      values[i] = v > 0 ? (curve.positive * v + curve.beta) * v
                        : (std::expm1(std::min(v, curve.eps)) - v) * curve.negative + curve.beta * v;
    }
  });
}

void sparse_gate(const KernelContext& context, const SparseGate& how, std::int64_t num_rows,
                 const Buffer& gates, const Buffer& up) {
  if (on_device(context)) return device_ops::sparse_gate(*context.device, how, num_rows, gates, up);
  std::int64_t before = 0, features = 0;  // columns of the parts before up's own, and of all parts
  for (std::size_t part = 0; part < how.widths.size(); ++part) {
    if (part < how.own) before += how.widths[part];
    features += how.widths[part];
  }
  const std::int64_t width = how.widths[how.own];
  for_rows(context, num_rows, features, [&](std::int64_t row) {
    if (by_reference(context)) return reference::sparse_gate(how, num_rows, gates, up, row);
    // Sums feature by feature in the model's order, regardless of the division into parts.
    const auto sum_of = [&](const auto& term) {
      double sum = 0;
      const float* part = floats(gates);
      for (const std::int64_t columns : how.widths) {
        const float* const from = part + row * columns;
        for (std::int64_t i = 0; i < columns; ++i) sum += term(static_cast<double>(from[i]));
        part += num_rows * columns;
      }
      return sum / static_cast<double>(features);
    };
    const double mean = sum_of([](double g) { return g; });
    const double variance = sum_of([&](double g) { return (g - mean) * (g - mean); });
    const auto cutoff = static_cast<float>(mean + how.deviations * std::sqrt(variance));
    const float* const gate = floats(gates) + num_rows * before + row * width;
    float* const out = floats(up, row);
    for (std::int64_t i = 0; i < width; ++i)
      out[i] = gate[i] > cutoff ? gelu(gate[i] - cutoff) * out[i] : 0.0f;
  });
}

void recurrent_gates(const KernelContext& context, const RecurrentGates& gates, std::int64_t num_rows,
                     const Buffer& weight, const Buffer& decay) {
  if (on_device(context)) return device_ops::recurrent_gates(*context.device, gates, num_rows, weight, decay);
  constexpr std::int64_t kCost = 16;  // relative to an addition
  for_rows(context, num_rows, kCost * gates.num_heads, [&](std::int64_t row) {
    if (by_reference(context))
      return reference::recurrent_gates(gates, floats(weight, row), floats(decay, row));
    float *const weights = floats(weight, row), *const decays = floats(decay, row);
    for (std::int64_t head = 0; head < gates.num_heads; ++head) {
      if (gates.delta_rule) {
        weights[head] = 1 / (1 + std::exp(-weights[head]));
        decays[head] = std::exp(gates.rate[head] * softplus(decays[head] + gates.bias[head]));
      } else {
        const float step = softplus(weights[head] + gates.bias[head]);
        weights[head] = std::clamp(step, gates.least_step, gates.most_step);
        decays[head] = std::exp(gates.rate[head] * weights[head]);
      }
    }
  });
}

void fill_rotations(const KernelContext& context, std::span<const std::int32_t> positions,
                    std::span<const double> frequencies, double amplitude, const Buffer& out) {
  if (on_device(context))
    return device_ops::fill_rotations(*context.device, positions, frequencies, amplitude, out);
  for_tiles(context, static_cast<std::int64_t>(positions.size()), [&](std::int64_t row, int) {
    float* const to = floats(out, row);
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = positions[static_cast<std::size_t>(row)] * frequencies[i];
      to[i] = static_cast<float>(amplitude * std::cos(angle));
      to[frequencies.size() + i] = static_cast<float>(amplitude * std::sin(angle));
    }
  });
}

}  // namespace pagoda
