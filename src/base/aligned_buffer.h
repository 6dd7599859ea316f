#pragma once
// AlignedBuffer: a byte buffer aligned to 4096 bytes, as direct I/O requires. Its content is uninitialised.
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/check.h"

namespace pagoda {

class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t bytes) : size_(bytes) {
    constexpr std::size_t kAlignment = 4096;
    const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole == 0 ? kAlignment : whole)));
    CHECK(bytes_ != nullptr);
  }
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace pagoda
