#include "kernels/placed.h"

#include "kernels/device/device_ops.h"

namespace pagoda {

Result<PlacedMemory> PlacedMemory::reserve(const KernelContext& context, std::int64_t num_floats,
                                           std::string_view name) {
  PlacedMemory memory;
  memory.bytes_ = num_floats * static_cast<std::int64_t>(sizeof(float));
  if (on_device(context)) {
    auto there = context.device->allocate(memory.bytes_, name);
    if (!there) return there.error();
    memory.there_ = *there;
    return memory;
  }
  auto own = Memory::reserve(static_cast<std::size_t>(memory.bytes_));
  if (!own) return own.error();
  memory.own_ = *std::move(own);
  return memory;
}

Result<PlacedVector> PlacedVector::place(const KernelContext& context, std::vector<float> values) {
  PlacedVector vector;
  vector.size_ = values.size();
  if (!on_device(context)) {
    vector.own_ = std::move(values);
    return vector;
  }
  auto there = context.device->place(std::as_bytes(std::span(values)), "weights");
  if (!there) return there.error();
  vector.there_ = reinterpret_cast<const float*>(*there);
  return vector;
}

}  // namespace pagoda
