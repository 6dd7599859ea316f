#pragma once
// Copies of parts of stored tensors, in the order and type in which a matrix is packed: for a WeightLoader,
// where rows do not lie as they are needed. Each fills `copy`. Threads: any; the work of one runs on the
// pool.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "models/tensor_shard.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// Transposed weights come as they are stored, quantised ones as what they mean.
inline DType transposed_type(DType stored) { return is_quantized(stored) ? DType::f32 : stored; }
// Rows first, first + step, ... of [out, in], out of the stored [in, out].
void transpose(const TensorView& stored, Range range, std::vector<std::byte>& copy, std::int64_t step = 1);
void copy_rows(const TensorView& matrix, Range range, std::int64_t step, std::vector<std::byte>& copy);
// Columns `range`, which are whole blocks; or, cut inside of blocks, as what they mean, in float32.
void copy_columns(const TensorView& matrix, Range range, std::vector<std::byte>& copy);
void copy_values(const TensorView& matrix, Range range, std::vector<std::byte>& copy);
// Rows first, first + step, ... with each block's power of two in front of it, and in its bytes elements i
// and i + 16 instead of neighbours: DType::mxfp4.
void join_mxfp4(const KernelContext& context, const TensorView& blocks, const TensorView& scales, Range rows,
                std::int64_t step, std::vector<std::byte>& copy);
// Rows first, first + step, ... of powers of two, of which 255 is none.
Status check_powers(const TensorView& scales, Range rows, std::int64_t step);

}  // namespace pagoda
