#pragma once
// Memory: an owned, page-aligned, zero-filled anonymous mapping. Pages become resident only when
// touched, so a large KV pool costs what is used. Asks for transparent huge pages from 2 MiB up.
#include <cstddef>
#include <span>
#include <utility>

#include "base/status.h"

namespace pagoda {

class Memory {
 public:
  Memory() = default;
  // resource_exhausted when the system refuses the reservation.
  static Result<Memory> reserve(std::size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() const { return reinterpret_cast<T*>(data_); }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pagoda
