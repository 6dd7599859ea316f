#pragma once
// CheckMemory: the memory of a short test of a device (bulk_check.h, attention_check.h): values copied to the
// device, space for the results of kernels, and values read back. Keeps the first error; after it, all
// pointers returned are null. The destructor frees all memory. Not for steps: each call allocates. Threads:
// the device's caller.
#include <cstring>
#include <vector>

#include "device/device_array.h"

namespace pagoda::device {

class CheckMemory {
 public:
  CheckMemory(Device& device, StreamId stream) : device_(device), stream_(stream) {}

  template <class T>
  T* room(std::size_t count) {
    if (!status_.ok()) return nullptr;
    auto memory = DeviceArray<std::byte>::create(device_, bytes_of<T>(count), "a check of bits");
    keep(memory ? ok_status() : memory.error());
    return memory ? reinterpret_cast<T*>(there_.emplace_back(*std::move(memory)).data()) : nullptr;
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    T* const to = room<T>(values.size());
    T* const from = pinned<T>(values.size());
    if (from == nullptr) return nullptr;
    std::memcpy(from, values.data(), values.size() * sizeof(T));
    keep(device_.copy_in(stream_, reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                         values.size() * sizeof(T)));
    return to;
  }
  // Waits for all work in the stream. Empty on error.
  template <class T>
  std::vector<T> get(const T* from, std::size_t count) {
    T* const to = pinned<T>(count);
    if (to == nullptr) return {};
    keep(device_.copy_out(stream_, reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                          count * sizeof(T)));
    keep(device_.synchronize(stream_));
    return status_.ok() ? std::vector<T>(to, to + count) : std::vector<T>();
  }
  // Also accepts errors of launches.
  void keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  const Status& status() const { return status_; }

 private:
  template <class T>
  static std::int64_t bytes_of(std::size_t count) {
    return static_cast<std::int64_t>(count * sizeof(T));
  }
  template <class T>
  T* pinned(std::size_t count) {
    if (!status_.ok()) return nullptr;
    auto memory = PinnedArray<std::byte>::create(device_, bytes_of<T>(count));
    keep(memory ? ok_status() : memory.error());
    return memory ? reinterpret_cast<T*>(here_.emplace_back(*std::move(memory)).data()) : nullptr;
  }

  Device& device_;
  StreamId stream_;
  Status status_;
  std::vector<DeviceArray<std::byte>> there_;
  std::vector<PinnedArray<std::byte>> here_;
};

}  // namespace pagoda::device
