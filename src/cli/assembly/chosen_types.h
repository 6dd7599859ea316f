#pragma once
// Resolves --dtype auto and --kv-cache-dtype auto for a model, as values of these flags, for the memory table
// and `pagoda inspect`. The choices are made in kernels/linear.h and model_runner/kv_layout_choice.h.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "loader/model_source.h"
#include "tensor/dtype.h"
#include "tensor/linear_arithmetic.h"

namespace pagoda {

struct StoredMatrices {
  DType dtype = DType::f32;
  std::int64_t bytes = 0;
  LinearArithmetic inputs = {};  // ModelSource::inputs_of
};

// Describes how the CPU computes with these stored matrices: "int8", or "int8 (activations int8 by token) and
// bfloat16", the larger part first. Omits types with less than a hundredth of the bytes. Empty if there are
// no matrices.
std::string chosen_arithmetic(std::string_view dtype, std::span<const StoredMatrices> stored);
std::string chosen_arithmetic(std::string_view dtype, const ModelSource& source);

// "bfloat16" for DType::bf16.
std::string_view kv_dtype_name(DType dtype);

}  // namespace pagoda
