#pragma once
// Copies of parts of stored tensors, in the order and type in which a matrix is packed: for a WeightLoader,
// where rows do not lie as they are needed. Each fills `copy`. Threads: any.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/weights/tensor_shard.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// Transposed weights come as they are stored, quantised ones as what they mean.
inline DType transposed_type(DType stored) { return is_quantized(stored) ? DType::f32 : stored; }
// Rows first, first + step, ... of [out, in], out of the stored [in, out].
void transpose(const TensorView& stored, Range range, std::vector<std::byte>& copy, std::int64_t step = 1);
// The same of 8-bit floats, as such: of each 32 rows of what is stored a column has one scale.
void transpose_float8(const TensorView& stored, Range range, std::vector<std::byte>& copy, std::int64_t step);
void copy_rows(const TensorView& matrix, Range range, std::int64_t step, std::vector<std::byte>& copy);
// Columns `range`, which are whole blocks; or, cut inside of blocks, as what they mean, in float32.
void copy_columns(const TensorView& matrix, Range range, std::vector<std::byte>& copy);
void copy_values(const TensorView& matrix, Range range, std::vector<std::byte>& copy);
// DType::nvfp4, of which a factor multiplies all, as DType::nvfp4_scaled.
void copy_scaled(const TensorView& matrix, float factor, std::vector<std::byte>& copy);

}  // namespace pagoda
