#pragma once
// Converts any stored weight type to float32. The reference definition of GGML's block formats.
#include <cstdint>

#include "tensor/half_floats.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// Row `row` of a [rows, columns] tensor into out[columns].
void dequantize_row(const TensorView& tensor, std::int64_t row, float* out);
// Converts `elements` elements starting at `data`; `elements` must be a multiple of the block size.
void dequantize(DType dtype, const std::byte* data, std::int64_t elements, float* out);

// 32 weights of a 4-bit type as stored in the file: w = scale * n + minimum, n in 0..15. nibbles[i] holds the
// n of weight i (low bits) and of weight 16 + i (high bits).
struct NibbleGroup {
  float scale = 0, minimum = 0;
  std::uint8_t nibbles[16] = {};
};
bool has_nibbles(DType dtype);  // true if each group of 32 weights takes at most 16 evenly spaced values
NibbleGroup nibble_group(DType dtype, const std::byte* row, std::int64_t group);

}  // namespace pagoda
