#include "kernels/linear.h"

#include <algorithm>
#include <atomic>

#include "kernels/dequantize.h"
#include "kernels/linear_storage.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda::reference {
namespace {

constexpr float kLargestHalf = 65504.0f;

enum class Operand { weight, activation };

// Rounds a row as 16-bit or 8-bit arithmetic does, back to floats. scale_inputs: for rows in 8 bits.
void round_row(LinearType type, Operand operand, float* row, std::int64_t k, std::int64_t scale_inputs = 0) {
  if (type == LinearType::bfloat16) {
    for (std::int64_t i = 0; i < k; ++i) row[i] = bfloat16_to_float(float_to_bfloat16(row[i]));
  } else if (type == LinearType::float16 && operand == Operand::weight) {
    for (std::int64_t i = 0; i < k; ++i)
      row[i] = half_to_float(float_to_half(std::clamp(row[i], -kLargestHalf, kLargestHalf)));
  } else if (type == LinearType::int8 && operand == Operand::activation) {
    std::vector<std::int8_t> q(static_cast<std::size_t>(scale_inputs));
    for (std::int64_t begin = 0; begin < k; begin += scale_inputs) {
      const int count = static_cast<int>(std::min(scale_inputs, k - begin));
      const float scale = quantize_group(row + begin, count, q.data());
      for (int i = 0; i < count; ++i)
        row[begin + i] = scale * static_cast<float>(q[static_cast<std::size_t>(i)]);
    }
  }
}

// Rounds a row of weights as 8-bit arithmetic does; `out` holds the row in float32 and receives the result.
void round_int8(PackedFormat format, const TensorView& view, std::int64_t row, std::int64_t k, float* out) {
  const std::byte* data = view.data + row * dtype_bytes(view.dtype, k);
  const std::int64_t groups = ceil_div(k, std::int64_t{kQuantGroup});
  std::vector<WeightStep> steps(static_cast<std::size_t>(groups));
  const auto group = [&](std::int64_t g) {
    return std::span(out + g * kQuantGroup,
                     static_cast<std::size_t>(std::min<std::int64_t>(kQuantGroup, k - g * kQuantGroup)));
  };
  for (std::int64_t g = 0; g < groups; ++g)
    steps[static_cast<std::size_t>(g)] = weight_step(format, view.dtype, data, g, group(g));
  const float unit = row_unit(steps, has_minimum_shares(format));
  const auto kept = [&](float value) { return half_to_float(unit_share(value, unit)); };
  for (std::int64_t g = 0; g < groups; ++g) {
    const WeightStep step = steps[static_cast<std::size_t>(g)];
    const float inverse = weight_inverse(step), scale = kept(step.scale);
    const float zero = std::nearbyint(-step.minimum * inverse);
    const float minimum = has_minimum_shares(format) ? kept(step.minimum) : -zero * scale;
    for (float& w : group(g)) w = unit * (scale * weight_byte(w, step, inverse) + minimum);
  }
}

// The sums that the rows' adapters add to all outputs of the matrix; empty if there are none.
std::vector<float> adapter_sums(const PackedLinear::Storage& weight, const LinearInput& input,
                                std::int64_t num_rows) {
  std::vector<float> sums;
  if (!any_adapter(input.adapters, num_rows, {weight.adapter_slot})) return sums;
  sums.resize(static_cast<std::size_t>(num_rows * weight.num_rows()));
  std::vector<float> x(static_cast<std::size_t>(weight.k));
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const AdapterFactors* const own = input.adapters[row];
    const LowRank* const factors = own != nullptr ? own->of(weight.adapter_slot) : nullptr;
    if (factors == nullptr) continue;
    input_row(input, row, weight.k, x.data());
    std::vector<double> u(static_cast<std::size_t>(factors->rank()));
    for (std::int32_t r = 0; r < factors->rank(); ++r)
      for (std::int64_t i = 0; i < weight.k; ++i)
        u[static_cast<std::size_t>(r)] +=
            static_cast<double>(factors->right_value(r, i)) * x[static_cast<std::size_t>(i)];
    for (const LowRank::Piece& piece : factors->pieces()) {
      for (std::int64_t j = 0; j < piece.outputs; ++j) {
        double sum = 0;
        for (std::int32_t r = 0; r < piece.rank; ++r)
          sum += u[static_cast<std::size_t>(piece.first_rank + r)] * factors->left_value(piece, j, r);
        sums[static_cast<std::size_t>(row * weight.num_rows() + piece.first_output + j)] =
            static_cast<float>(piece.scale * sum);
      }
    }
  }
  return sums;
}

}  // namespace

void input_row(const LinearInput& input, std::int64_t row, std::int64_t k, float* out) {
  const float* x = input.x + row * input.stride;
  switch (input.op) {
    case LinearInput::Op::none:
      std::copy(x, x + k, out);
      return;
    case LinearInput::Op::rms_norm:
      return rms_norm(x, k, input.weight, input.eps, out);
    case LinearInput::Op::layer_norm:
      return layer_norm(x, k, input.weight, input.bias, input.eps, out);
  }
}

void pack(const KernelContext& context, std::span<const TensorView> weights, PackedLinear::Storage& storage) {
  auto* out = storage.own.as<float>();
  std::atomic<bool> rounded{false};
  std::int64_t n_begin = 0;
  for (const TensorView& view : weights) {
    const PackedFormat panels = chosen_panels(context.level, LinearType::int8, storage.form, weights, view);
    for_ranges(context, view.rows(), 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        float* target = out + (n_begin + row) * storage.k;
        dequantize_row(view, row, target);
        const std::vector<float> values(target, target + storage.k);
        if (storage.type == LinearType::int8) {
          if (!keeps_file_numbers(panels)) round_int8(panels, view, row, storage.k, target);
        } else {
          round_row(storage.type, Operand::weight, target, storage.k);
        }
        if (!std::equal(values.begin(), values.end(), target)) rounded = true;
      }
    });
    n_begin += view.rows();
  }
  storage.keeps_values = !rounded;
}

void linear(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, float* y, const LinearOutput& output) {
  const std::int64_t n = weight.n, k = weight.k;
  std::vector<float> rounded(static_cast<std::size_t>(num_rows * k));
  std::vector<float> scales(static_cast<std::size_t>(num_rows), 1.0f);
  const LinearArithmetic& arithmetic = weight.arithmetic;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    float* to = rounded.data() + row * k;
    input_row(input, row, k, to);
    if (!arithmetic.is_own())
      scales[static_cast<std::size_t>(row)] =
          quantize_inputs(arithmetic, std::span(to, static_cast<std::size_t>(k)));
    if (arithmetic.number != InputNumber::int8 || !arithmetic.scales_rows())
      round_row(weight.type, Operand::activation, to, k, weight.scale_inputs());
  }
  const auto* w = reinterpret_cast<const float*>(weight.packed);
  const auto product = [&](std::int64_t row, std::int64_t j) {
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i)
      sum += static_cast<double>(rounded[static_cast<std::size_t>(row * k + i)]) * w[j * k + i];
    sum *= scales[static_cast<std::size_t>(row)];
    if (!weight.bias.empty()) sum += weight.bias[static_cast<std::size_t>(j)];
    return static_cast<float>(sum);
  };
  const std::vector<float> added = adapter_sums(weight, input, num_rows);
  const auto sum = [&](std::int64_t row, std::int64_t j) {
    const float own = product(row, j);
    return added.empty() ? own : own + added[static_cast<std::size_t>(row * weight.num_rows() + j)];
  };
  for_ranges(context, n, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t j = first; j < last; ++j) {
        float value = sum(row, j);
        if (output.activation) value = activation(*output.activation, value);
        if (weight.form == LinearForm::gated) value *= gate_factor(*output.activation, sum(row, n + j));
        float& target = y[row * n + j];
        target = output.accumulate ? target + value : value;
      }
    }
  });
}

void linear_max(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
                std::span<LogitMax> largest) {
  std::vector<float> row(static_cast<std::size_t>(weight.n));
  for (std::size_t i = 0; i < largest.size(); ++i) {
    LinearInput one = input;
    one.x += static_cast<std::int64_t>(i) * input.stride;
    linear(context, weight, one, 1, row.data(), {});
    largest[i] = max_logit(row);
  }
}

}  // namespace pagoda::reference
