#pragma once
// Buffer: a view of activations: the first row's address, the element type, and the distance between rows.
// Code that computes a model passes buffers on and moves along their rows and columns; only kernels access
// the elements (tools/check), so a buffer may lie on a device. Plain data: does not own the memory.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "tensor/dtype.h"

namespace pagoda {

struct Buffer {
  std::byte* data = nullptr;
  DType type = DType::f32;
  std::int64_t stride = 0;  // elements from row to row

  explicit operator bool() const { return data != nullptr; }

  // The same rows, starting at row `row` and column `column`.
  Buffer at(std::int64_t row, std::int64_t column = 0) const {
    Buffer moved = *this;
    if (data != nullptr) moved.data += (row * stride + column) * dtype_info(type).block_bytes;
    return moved;
  }
  // The same memory viewed as contiguous rows of another width.
  Buffer with_stride(std::int64_t elements) const { return {data, type, elements}; }

  // Floats in this process's memory. A buffer does not record whether it may be written: the op decides.
  static Buffer of(const float* rows, std::int64_t stride) {
    return {reinterpret_cast<std::byte*>(const_cast<float*>(rows)), DType::f32, stride};
  }
};

// For kernels: the floats of a buffer in this process's memory.
inline float* floats(const Buffer& buffer) {
  CHECK(buffer.type == DType::f32);
  return reinterpret_cast<float*>(buffer.data);
}
// For kernels: row `row` of the buffer.
inline float* floats(const Buffer& buffer, std::int64_t row) { return floats(buffer) + row * buffer.stride; }

}  // namespace pagoda
