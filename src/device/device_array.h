#pragma once
// DeviceArray and PinnedArray: owning arrays in memory of a Device. The device must outlive them, and all
// work that uses them must have run before they are destroyed. Not initialised. Threads: the device's caller.
#include <string_view>
#include <utility>

#include "device/device.h"

namespace pagoda::device {

enum class MemoryKind { own, pinned };  // own: device memory; pinned: host memory that the device can access

template <class T, MemoryKind kKind>
class OwnedArray {
 public:
  OwnedArray() = default;
  // `name` describes device memory in reports of allocations.
  static Result<OwnedArray> create(Device& device, std::int64_t count, std::string_view name = {}) {
    OwnedArray array;
    if (count == 0) return array;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    auto memory = kKind == MemoryKind::pinned ? device.allocate_pinned(bytes) : device.allocate(bytes, name);
    if (!memory) return memory.error();
    array.device_ = &device;
    array.data_ = reinterpret_cast<T*>(*memory);
    array.count_ = count;
    return array;
  }
  OwnedArray(OwnedArray&& other) noexcept { *this = std::move(other); }
  OwnedArray& operator=(OwnedArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~OwnedArray() {
    if (data_ == nullptr) return;
    // A lost device frees nothing.
    (void)(kKind == MemoryKind::pinned ? device_->free_pinned(bytes()) : device_->free(bytes())).ok();
  }

  T* data() const { return data_; }  // null if empty
  std::byte* bytes() const { return reinterpret_cast<std::byte*>(data_); }
  std::int64_t count() const { return count_; }
  std::int64_t size_bytes() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  Device* device_ = nullptr;
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

template <class T>
using DeviceArray = OwnedArray<T, MemoryKind::own>;
template <class T>
using PinnedArray = OwnedArray<T, MemoryKind::pinned>;

}  // namespace pagoda::device
