#pragma once
// Copies parts of stored tensors into the order and type in which a matrix is packed, for a WeightLoader, if
// the rows are not stored that way. Each function fills `copy`.
// Threads: any.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/weights/tensor_shard.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// Transposed weights keep their stored type; quantised ones are dequantised.
inline DType transposed_type(DType stored) { return is_quantized(stored) ? DType::f32 : stored; }
// Copies rows first, first + step, ... of [out, in] from the stored [in, out].
void transpose(const TensorView& stored, Range range, std::vector<std::byte>& copy, std::int64_t step = 1);
// The same for 8-bit floats, unconverted: each column of 32 stored rows has one scale.
void transpose_float8(const TensorView& stored, Range range, std::vector<std::byte>& copy, std::int64_t step);
void copy_rows(const TensorView& matrix, Range range, std::int64_t step, std::vector<std::byte>& copy);
// Copies columns `range`, which must be whole blocks; copy_values() dequantises to float32, so may cut
// blocks.
void copy_columns(const TensorView& matrix, Range range, std::vector<std::byte>& copy);
void copy_values(const TensorView& matrix, Range range, std::vector<std::byte>& copy);
// Converts DType::nvfp4 whose values have a common factor to DType::nvfp4_scaled.
void copy_scaled(const TensorView& matrix, float factor, std::vector<std::byte>& copy);

}  // namespace pagoda
