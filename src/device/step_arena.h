#pragma once
// StepArena: the input arrays of a step. Arrays are written to pinned memory and copied to the device back to
// back, in the step's stream. They stay valid until the next begin(). Pinned memory is double-buffered: one
// step can be prepared while the previous one still waits for its copies. Device memory is not. Memory is
// reserved in advance and grows if a step needs more. Threads: the device's caller.
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "device/device_array.h"

namespace pagoda::device {

class StepArena {
 public:
  StepArena(Device& device, StreamId stream) : device_(&device), stream_(stream) {}

  // Allocates this much memory before the first step.
  Status reserve(std::size_t bytes);
  std::int64_t size_bytes() const;

  // All work of the step before the previous one must have run.
  void begin() {
    side_ ^= 1;
    chunk_ = used_ = held_ = held_end_ = 0;
    holds_ = false;
  }
  // Delays the copies of later puts until send(), which copies neighbouring arrays together.
  void hold() { holds_ = true; }
  Status send();

  // Returns the device address that will hold `values` for work enqueued on the stream later; null if
  // `values` is empty. `capacity`: reserves this many bytes, so that the address of the next put does not
  // depend on the number of values.
  template <class T>
  Result<const T*> put(std::span<const T> values, std::size_t capacity = 0) {
    auto to = put_bytes(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes(), capacity);
    if (!to) return to.error();
    return reinterpret_cast<const T*>(*to);
  }
  // Likewise, but keeps the first error for take_status().
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
  std::size_t side_ = 0, chunk_ = 0, used_ = 0;  // the chunk being filled, and the bytes used in it
  bool holds_ = false;
  std::size_t held_ = 0, held_end_ = 0;  // bytes of the chunk whose copy is delayed
  Status status_;
};

}  // namespace pagoda::device
