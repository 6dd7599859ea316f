#pragma once
// TensorView: a borrowed, read-only, row-major tensor. The last axis is contiguous and, for quantised
// types, a multiple of the block. Owns nothing; the file mapping behind it must outlive it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace pagoda {

struct TensorView {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // outermost first: a linear weight is [out_features, in_features]
  const std::byte* data = nullptr;  // may be unaligned for its type: copy, do not cast

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) product *= extent;
    return product;
  }
  std::int64_t bytes() const { return dtype_bytes(dtype, elements()); }
  // For two axes: rows and columns.
  std::int64_t rows() const { return shape.empty() ? 0 : shape.front(); }
  std::int64_t columns() const {
    return shape.empty() || shape.front() == 0 ? 0 : elements() / shape.front();
  }
};

}  // namespace pagoda
