#include "models/weight_copies.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "kernels/dequantize.h"
#include "kernels/tiles.h"

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

void join_mxfp4(const KernelContext& context, const TensorView& blocks, const TensorView& scales, Range rows,
                std::int64_t step, std::vector<std::byte>& copy) {
  constexpr std::int64_t kBytes = 17;
  const std::int64_t per_row = scales.columns();
  copy.resize(static_cast<std::size_t>(rows.count * per_row * kBytes));
  for_ranges(context, rows.count, 16, [&](std::int64_t first, std::int64_t last) {
    std::byte* to = copy.data() + first * per_row * kBytes;
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t begin = (rows.first + row * step) * per_row;
      for (std::int64_t block = begin; block < begin + per_row; ++block, to += kBytes) {
        const std::byte* const pairs = blocks.data + block * 16;
        const auto element = [&](int i) { return pairs[i / 2] >> (i % 2 * 4) & std::byte{15}; };
        to[0] = scales.data[block];
        for (int i = 0; i < 16; ++i) to[1 + i] = element(i) | element(i + 16) << 4;
      }
    }
  });
}

Status check_powers(const TensorView& scales, Range rows, std::int64_t step) {
  const std::int64_t per_row = scales.columns();
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::byte* const begin = scales.data + (rows.first + row * step) * per_row;
    if (std::find(begin, begin + per_row, std::byte{255}) != begin + per_row)
      return corrupt_data(concat("has a scale that is not a number, in row ", rows.first + row * step));
  }
  return ok_status();
}

}  // namespace pagoda
