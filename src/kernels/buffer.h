#pragma once
// Buffer: a place of activations: where its first row lies, the type of the elements, and how far it is from
// one row to the next. Whoever computes a model hands buffers on and moves along their rows and columns; only
// kernels look inside (tools/check), so a buffer may lie on a device. Plain data: memory is another's.
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

  // The same rows from this one, and this column, on.
  Buffer at(std::int64_t row, std::int64_t column = 0) const {
    Buffer moved = *this;
    if (data != nullptr) moved.data += (row * stride + column) * dtype_info(type).block_bytes;
    return moved;
  }
  // The same place as rows of another width, one directly behind the other.
  Buffer with_stride(std::int64_t elements) const { return {data, type, elements}; }

  // Floats in this process's memory. A buffer does not say whether it may be written: its op does.
  static Buffer of(const float* rows, std::int64_t stride) {
    return {reinterpret_cast<std::byte*>(const_cast<float*>(rows)), DType::f32, stride};
  }
};

// Kernels': the floats of a buffer in this process's memory.
inline float* floats(const Buffer& buffer) {
  CHECK(buffer.type == DType::f32);
  return reinterpret_cast<float*>(buffer.data);
}
// Row `row` of it.
inline float* floats(const Buffer& buffer, std::int64_t row) { return floats(buffer) + row * buffer.stride; }

}  // namespace pagoda
