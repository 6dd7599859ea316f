#include "tensor/memory.h"

#include <sys/mman.h>

#include "base/strings.h"

namespace pagoda {

Result<Memory> Memory::reserve(std::size_t bytes) {
  Memory memory;
  if (bytes == 0) return memory;
  void* address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return resource_exhausted(concat("cannot reserve ", bytes, " bytes of memory"));
  if (bytes >= (std::size_t{2} << 20)) madvise(address, bytes, MADV_HUGEPAGE);
  memory.data_ = static_cast<std::byte*>(address);
  memory.size_ = bytes;
  return memory;
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace pagoda
