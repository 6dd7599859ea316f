#pragma once
// DeviceArray and PinnedArray: memory of a Device that goes with its owner. The device outlives them, and has
// done what uses them. Not initialised. Threads: the device's caller.
#include <string_view>
#include <utility>

#include "device/device.h"

namespace pagoda::device {

template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  static Result<DeviceArray> create(Device& device, std::int64_t count, std::string_view name) {
    DeviceArray array;
    if (count == 0) return array;
    auto memory = device.allocate(static_cast<std::size_t>(count) * sizeof(T), name);
    if (!memory) return memory.error();
    array.device_ = &device;
    array.data_ = reinterpret_cast<T*>(*memory);
    array.count_ = count;
    return array;
  }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) (void)device_->free(bytes()).ok();  // a lost device frees nothing
  }

  T* data() const { return data_; }  // null: empty
  std::byte* bytes() const { return reinterpret_cast<std::byte*>(data_); }
  std::int64_t count() const { return count_; }
  std::int64_t size_bytes() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  Device* device_ = nullptr;
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

template <class T>
class PinnedArray {
 public:
  PinnedArray() = default;
  static Result<PinnedArray> create(Device& device, std::int64_t count) {
    PinnedArray array;
    if (count == 0) return array;
    auto memory = device.allocate_pinned(static_cast<std::size_t>(count) * sizeof(T));
    if (!memory) return memory.error();
    array.device_ = &device;
    array.data_ = reinterpret_cast<T*>(*memory);
    array.count_ = count;
    return array;
  }
  PinnedArray(PinnedArray&& other) noexcept { *this = std::move(other); }
  PinnedArray& operator=(PinnedArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~PinnedArray() {
    if (data_ != nullptr) (void)device_->free_pinned(bytes()).ok();
  }

  T* data() const { return data_; }
  std::byte* bytes() const { return reinterpret_cast<std::byte*>(data_); }
  std::int64_t count() const { return count_; }

 private:
  Device* device_ = nullptr;
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace pagoda::device
