#pragma once
// Memory: an owned, page-aligned, zero-filled anonymous mapping. Pages become resident only when touched, so
// a large KV pool costs only what is used. Requests transparent huge pages from 2 MiB up; smaller pieces that
// are read as often, such as a layer's weights, are carved out of a larger mapping to get them, too.
// Threads: any thread may reserve and carve.
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"

namespace pagoda {

// The error for a mapping that the system refused.
Status reservation_refused(std::size_t bytes);

class Memory {
 public:
  Memory() = default;
  // resource_exhausted: the system refused the reservation.
  static Result<Memory> reserve(std::size_t bytes);
  // The same, as a piece of a mapping shared with other pieces, which lives as long as any of them. Pieces
  // carved in sequence are adjacent, on the same huge pages.
  static Result<Memory> carve(std::size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        shared_(std::move(other.shared_)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(shared_, other.shared_);
    return *this;
  }

  // Makes these bytes resident, so that no later write waits for the system; their content is kept. Returns
  // false if the system cannot (Linux before 5.14, no memory): they then become resident when touched. Safe
  // while other threads write.
  bool populate(std::size_t offset, std::size_t bytes) const;

  // Returns the pages to the system; they read as zeros afterwards. Only for reserved, not for carved memory.
  void discard() const;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const Memory> shared_;  // the mapping that this is a piece of; null if reserved
};

}  // namespace pagoda
