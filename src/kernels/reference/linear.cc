#include "kernels/linear.h"

#include <algorithm>

#include "kernels/dequantize.h"
#include "kernels/linear_storage.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda::reference {
namespace {

enum class Operand { weight, activation };

// A row as bf16 or 8-bit arithmetic sees it, as floats again.
void round_row(LinearType type, Operand operand, float* row, std::int64_t k) {
  if (type == LinearType::bfloat16) {
    for (std::int64_t i = 0; i < k; ++i) row[i] = bfloat16_to_float(float_to_bfloat16(row[i]));
  } else if (type == LinearType::int8 && operand == Operand::weight) {
    float inverse;
    const float scale = row_scale(row, k, &inverse);
    for (std::int64_t i = 0; i < k; ++i) row[i] = scale * row_weight(row[i], inverse);
  } else if (type == LinearType::int8 || type == LinearType::grouped) {
    const int group = type == LinearType::int8 ? kWideQuantGroup : kQuantGroup;
    for (std::int64_t begin = 0; begin < k; begin += group) {
      const int count = static_cast<int>(std::min<std::int64_t>(group, k - begin));
      std::int8_t q[kWideQuantGroup];
      const float scale = operand == Operand::weight ? quantize_weight_group(row + begin, count, q)
                                                     : quantize_group(row + begin, count, q);
      for (int i = 0; i < count; ++i) row[begin + i] = scale * static_cast<float>(q[i]);
    }
  }
}

}  // namespace

void pack(const KernelContext& context, std::span<const TensorView> weights, PackedLinear::Storage& storage) {
  auto* out = storage.packed.as<float>();
  std::int64_t n_begin = 0;
  for (const TensorView& view : weights) {
    // Quantised weights under `grouped` keep the file's values; all else is rounded to the arithmetic.
    const bool keep = storage.type == LinearType::grouped && is_quantized(view.dtype);
    for_ranges(context, view.rows(), 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        float* target = out + (n_begin + row) * storage.k;
        dequantize_row(view, row, target);
        if (!keep) round_row(storage.type, Operand::weight, target, storage.k);
      }
    });
    n_begin += view.rows();
  }
}

void linear(const KernelContext& context, const PackedLinear::Storage& weight, const float* x,
            std::int64_t num_rows, float* y, LinearOutput output) {
  const std::int64_t n = weight.n, k = weight.k;
  std::vector<float> rounded(x, x + num_rows * k);
  for (std::int64_t row = 0; row < num_rows; ++row)
    round_row(weight.type, Operand::activation, rounded.data() + row * k, k);
  const auto* w = weight.packed.as<float>();
  for_ranges(context, n, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t j = first; j < last; ++j) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i)
          sum += static_cast<double>(rounded[static_cast<std::size_t>(row * k + i)]) * w[j * k + i];
        if (!weight.bias.empty()) sum += weight.bias[static_cast<std::size_t>(j)];
        float& target = y[row * n + j];
        target =
            output == LinearOutput::accumulate ? target + static_cast<float>(sum) : static_cast<float>(sum);
      }
    }
  });
}

}  // namespace pagoda::reference
