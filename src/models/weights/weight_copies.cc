#include "models/weights/weight_copies.h"

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

void transpose_float8(const TensorView& stored, Range range, std::vector<std::byte>& copy,
                      std::int64_t step) {
  constexpr std::int64_t kOf = 32, kBlock = dtype_info(DType::fp8).block_bytes, kScale = kBlock - kOf;
  const std::int64_t in = stored.rows(), row_bytes = dtype_bytes(DType::fp8, stored.columns());
  copy.resize(static_cast<std::size_t>(dtype_bytes(DType::fp8, in * range.count)));
  std::byte* to = copy.data();
  for (std::int64_t o = 0; o < range.count; ++o) {
    const std::int64_t column = range.first + o * step;
    const std::byte* block = stored.data + column / kOf * kBlock;
    for (std::int64_t first = 0; first < in; first += kOf) {
      std::memcpy(to, block, kScale);
      for (std::int64_t i = 0; i < kOf; ++i, block += row_bytes)
        to[kScale + i] = block[kScale + column % kOf];
      to += kBlock;
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

void copy_scaled(const TensorView& matrix, float factor, std::vector<std::byte>& copy) {
  constexpr DTypeInfo kFrom = dtype_info(DType::nvfp4), kTo = dtype_info(DType::nvfp4_scaled);
  const std::int64_t blocks = matrix.rows() * matrix.columns() / kFrom.block_elements;
  const float factors[2] = {factor, 1};
  copy.resize(static_cast<std::size_t>(blocks * kTo.block_bytes));
  for (std::int64_t block = 0; block < blocks; ++block) {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(matrix.data) + block * kFrom.block_bytes;
    auto* const to = reinterpret_cast<std::uint8_t*>(copy.data()) + block * kTo.block_bytes;
    std::memcpy(to, factors, sizeof factors);
    for (int scale = 0; scale < 4; ++scale)  // scales have no sign, and 0x7f is none
      to[8 + scale] = from[scale] == 0x7f ? 0 : from[scale] & 0x7f;
    for (int i = 0; i < 32; ++i) {  // elements i and i + 8 of 16 become i and i + 16 of 32
      const std::uint8_t* const codes = from + 4 + i / 16 * 16 + i % 8;
      const int shift = i % 16 < 8 ? 0 : 4, low = codes[0] >> shift & 15, high = codes[8] >> shift & 15;
      to[12 + i] = static_cast<std::uint8_t>(low | high << 4);
    }
  }
}

}  // namespace pagoda
