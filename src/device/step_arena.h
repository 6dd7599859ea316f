#pragma once
// StepArena: what a step brings to the device: arrays that are put into pinned memory and copied behind each
// other in the step's stream. They are there until the next begin(). Pinned memory is of two steps, so that
// one may be put together while the one before it still waits for its copies; the device's is of one. Memory
// is reserved ahead, and grows where a step brings more. Threads: the device's caller.
#include <array>
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

  // Needs everything of the step before the last one to have run.
  void begin() {
    side_ ^= 1;
    chunk_ = used_ = held_ = held_end_ = 0;
    holds_ = false;
  }
  // Copies of what is put from now on wait for send(), where neighbours go as one.
  void hold() { holds_ = true; }
  Status send();

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
    std::array<PinnedArray<std::byte>, 2> host;
    DeviceArray<std::byte> there;
  };
  Status add_chunk(std::size_t bytes);
  Status copy_held();
  Result<std::byte*> put_bytes(const std::byte* values, std::size_t bytes, std::size_t capacity);

  Device* device_;
  StreamId stream_;
  std::vector<Chunk> chunks_;
  std::size_t side_ = 0, chunk_ = 0, used_ = 0;  // the chunk that is being filled, and so much of it
  bool holds_ = false;
  std::size_t held_ = 0, held_end_ = 0;  // bytes of the chunk that wait for their copy
  Status status_;
};

}  // namespace pagoda::device
