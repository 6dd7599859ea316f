#pragma once
// Memory: an owned, page-aligned, zero-filled anonymous mapping. Pages become resident only when
// touched, so a large KV pool costs what is used. Asks for transparent huge pages from 2 MiB up; what is
// smaller and read as often, like a layer's weights, is carved out of one larger mapping to have them too.
// Threads: reserve and carve may be called by any.
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"

namespace pagoda {

// The error of a mapping that the system refuses.
Status reservation_refused(std::size_t bytes);

class Memory {
 public:
  Memory() = default;
  // resource_exhausted when the system refuses the reservation.
  static Result<Memory> reserve(std::size_t bytes);
  // The same, as a piece of a mapping that pieces share and that lives as long as one of them: pieces taken
  // one after the other are neighbours on the same huge pages.
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

  // Makes these bytes resident now, so that no later write waits for the system; their contents stay. False
  // where the system cannot (Linux before 5.14, no memory): they then become so when touched. Beside writers.
  bool populate(std::size_t offset, std::size_t bytes) const;

  // Its pages go back to the system; they read as zeros afterwards. Of memory that was reserved, not carved.
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
  std::shared_ptr<const Memory> shared_;  // the mapping that this is a piece of, or null
};

}  // namespace pagoda
