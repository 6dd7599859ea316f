#pragma once
// Memory that a context's ops can access: in this process, or on a device, whose memory belongs to its
// DeviceOps. PlacedMemory holds activations; PlacedVector holds a model's small vectors: norm weights,
// biases, rates. Only ops access the contents. Errors: resource_exhausted. Threads: the context's caller.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "tensor/memory.h"

namespace pagoda {

class PlacedMemory {
 public:
  PlacedMemory() = default;
  static Result<PlacedMemory> reserve(const KernelContext& context, std::int64_t num_floats,
                                      std::string_view name);

  std::byte* data() const { return there_ != nullptr ? there_ : own_.data(); }
  std::int64_t size() const { return bytes_; }

 private:
  Memory own_;
  std::byte* there_ = nullptr;
  std::int64_t bytes_ = 0;
};

class PlacedVector {
 public:
  PlacedVector() = default;
  static Result<PlacedVector> place(const KernelContext& context, std::vector<float> values);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const float* data() const { return empty() ? nullptr : there_ != nullptr ? there_ : own_.data(); }
  std::span<const float> all() const { return {data(), size_}; }

 private:
  std::vector<float> own_;
  const float* there_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pagoda
