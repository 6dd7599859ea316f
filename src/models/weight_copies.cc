#include "models/weight_copies.h"

#include <cstring>

#include "kernels/dequantize.h"

namespace pagoda {

void transpose(const TensorView& stored, Range range, std::vector<std::byte>& copy, std::int64_t step) {
  const std::int64_t in = stored.rows(), out = stored.columns();
  const auto element = static_cast<std::size_t>(dtype_info(transposed_type(stored.dtype)).block_bytes);
  std::vector<float> values(static_cast<std::size_t>(is_quantized(stored.dtype) ? out : 0));
  copy.resize(static_cast<std::size_t>(in * range.count) * element);
  for (std::int64_t i = 0; i < in; ++i) {
    const std::byte* row = stored.data + static_cast<std::size_t>(i * out) * element;
    if (is_quantized(stored.dtype)) {
      dequantize_row(stored, i, values.data());
      row = reinterpret_cast<const std::byte*>(values.data());
    }
    for (std::int64_t o = 0; o < range.count; ++o) {
      std::memcpy(copy.data() + static_cast<std::size_t>(o * in + i) * element,
                  row + static_cast<std::size_t>(range.first + o * step) * element, element);
    }
  }
}

void copy_rows(const TensorView& matrix, Range range, std::int64_t step, std::vector<std::byte>& copy) {
  const auto bytes = static_cast<std::size_t>(dtype_bytes(matrix.dtype, matrix.columns()));
  copy.resize(static_cast<std::size_t>(range.count) * bytes);
  for (std::int64_t row = 0; row < range.count; ++row)
    std::memcpy(copy.data() + static_cast<std::size_t>(row) * bytes,
                matrix.data + static_cast<std::size_t>(range.first + row * step) * bytes, bytes);
}

void copy_columns(const TensorView& matrix, Range range, std::vector<std::byte>& copy) {
  const std::int64_t rows = matrix.rows(), columns = matrix.columns();
  const auto bytes = static_cast<std::size_t>(dtype_bytes(matrix.dtype, range.count));
  copy.resize(static_cast<std::size_t>(rows) * bytes);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(copy.data() + static_cast<std::size_t>(row) * bytes,
                matrix.data + dtype_bytes(matrix.dtype, row * columns + range.first), bytes);
  }
}

void copy_values(const TensorView& matrix, Range range, std::vector<std::byte>& copy) {
  std::vector<float> row_values(static_cast<std::size_t>(matrix.columns()));
  const auto bytes = static_cast<std::size_t>(range.count) * sizeof(float);
  copy.resize(static_cast<std::size_t>(matrix.rows()) * bytes);
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    dequantize_row(matrix, row, row_values.data());
    std::memcpy(copy.data() + static_cast<std::size_t>(row) * bytes, row_values.data() + range.first, bytes);
  }
}

}  // namespace pagoda
