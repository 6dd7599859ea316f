#pragma once
// Any stored weight type to float32. The reference meaning of GGML's block formats.
#include <cstdint>

#include "tensor/tensor_view.h"

namespace pagoda {

// Row `row` of a [rows, columns] tensor into out[columns].
void dequantize_row(const TensorView& tensor, std::int64_t row, float* out);
// `elements` elements starting at `data`; a multiple of the block.
void dequantize(DType dtype, const std::byte* data, std::int64_t elements, float* out);

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);  // round to nearest even
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);  // round to nearest even; NaN stays NaN

}  // namespace pagoda
