#pragma once
// Resolves --dtype auto and --kv-cache-dtype auto for a model, in the words of these flags: for the memory
// table and `pagoda inspect`. The choices themselves: kernels/linear.h, model_runner/kv_layout_choice.h.
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

// How the CPU computes with matrices that are stored so: "int8", or "int8 (activations int8 by token) and
// bfloat16", the larger part first. Types with less than a hundredth of the bytes are left out. Empty: there
// are none.
std::string chosen_arithmetic(std::string_view dtype, std::span<const StoredMatrices> stored);
std::string chosen_arithmetic(std::string_view dtype, const ModelSource& source);

// "bfloat16" for DType::bf16.
std::string_view kv_dtype_name(DType dtype);

}  // namespace pagoda
