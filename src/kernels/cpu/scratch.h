#pragma once
// Scratch: a thread's reusable, 64-byte-aligned work space, so that a step allocates nothing once warm. The
// content of a call's scratch is overwritten by the same thread's next call of the same kind.
#include <cstddef>
#include <memory>
#include <new>

namespace pagoda::cpu {

class Scratch {
 public:
  // At least `bytes` bytes, with undefined contents.
  std::byte* take(std::size_t bytes) {
    if (bytes > size_) {
      size_ = bytes + bytes / 4;
      data_.reset(static_cast<std::byte*>(::operator new(size_, std::align_val_t{64})));
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace pagoda::cpu
