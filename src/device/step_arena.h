#pragma once
// StepArena: what a step brings to the device: arrays that are put into pinned memory and copied behind each
// other in the step's stream. They are there until the next begin(). Memory is reserved ahead, and grows
// where a step brings more. Threads: the device's caller.
#include <cstring>
#include <span>
#include <vector>

#include "device/device_array.h"

namespace pagoda::device {

class StepArena {
 public:
  StepArena(Device& device, StreamId stream) : device_(&device), stream_(stream) {}

  // Takes memory for so much ahead of the first step.
  Status reserve(std::size_t bytes);
  std::int64_t size_bytes() const;

  // Needs everything of the last step to have run.
  void begin() {
    chunk_ = 0;
    used_ = 0;
  }

  // The device address that a copy of `values` will have for work put into the stream later. Null for none.
  // `capacity`: room for so many bytes is taken, so that what is put next has the same address whatever there
  // is of these.
  template <class T>
  Result<const T*> put(std::span<const T> values, std::size_t capacity = 0) {
    auto to = put_bytes(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes(), capacity);
    if (!to) return to.error();
    return reinterpret_cast<const T*>(*to);
  }
  // The same; keeps the first error for take_status().
  template <class T>
  const T* put(const std::vector<T>& values) {
    return keep(std::span<const T>(values));
  }
  template <class T>
  const T* keep(std::span<const T> values, std::size_t capacity = 0) {
    auto to = put(values, capacity);
    if (to) return *to;
    if (status_.ok()) status_ = to.error();
    return nullptr;
  }
  Status take_status() { return std::exchange(status_, ok_status()); }

 private:
  struct Chunk {
    PinnedArray<std::byte> host;
    DeviceArray<std::byte> there;
  };
  Status add_chunk(std::size_t bytes);
  Result<std::byte*> put_bytes(const std::byte* values, std::size_t bytes, std::size_t capacity);

  Device* device_;
  StreamId stream_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, used_ = 0;  // the chunk that is being filled, and so much of it
  Status status_;
};

}  // namespace pagoda::device
