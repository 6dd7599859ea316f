#include "tensor/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {

Status reservation_refused(std::size_t bytes) {
  return resource_exhausted(
      concat("not enough memory: the system refuses ", bytes, " bytes (see ulimit -v and cgroup limits)"));
}

Result<Memory> Memory::reserve(std::size_t bytes) {
  Memory memory;
  if (bytes == 0) return memory;
  void* address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return reservation_refused(bytes);
  if (bytes >= (std::size_t{2} << 20)) madvise(address, bytes, MADV_HUGEPAGE);
  memory.data_ = static_cast<std::byte*>(address);
  memory.size_ = bytes;
  return memory;
}

Result<Memory> Memory::carve(std::size_t bytes) {
  constexpr std::size_t kHuge = std::size_t{2} << 20, kShared = std::size_t{64} << 20, kPage = 4096;
  if (bytes == 0 || bytes > kShared / 2) return reserve(bytes);
  static std::mutex mutex;
  static std::weak_ptr<const Memory> latest;
  static std::size_t next = 0;  // start of the free part of the latest mapping
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Memory> shared = latest.lock();
  if (shared == nullptr || shared->size() - next < bytes) {
    auto mapping = reserve(kShared);
    if (!mapping) return mapping.error();
    shared = std::make_shared<const Memory>(*std::move(mapping));
    latest = shared;
    next = (kHuge - reinterpret_cast<std::uintptr_t>(shared->data()) % kHuge) % kHuge;
  }
  Memory piece;
  piece.data_ = shared->data() + next;
  piece.size_ = bytes;
  piece.shared_ = std::move(shared);
  next += (bytes + kPage - 1) / kPage * kPage;
  return piece;
}

bool Memory::populate(std::size_t offset, std::size_t bytes) const {
  CHECK(offset <= size_ && bytes <= size_ - offset);
#ifdef MADV_POPULATE_WRITE
  constexpr std::size_t kPage = 4096;
  const std::size_t begin = offset / kPage * kPage;
  return madvise(data_ + begin, offset + bytes - begin, MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}

void Memory::discard() const {
  CHECK(shared_ == nullptr);
  if (data_ != nullptr) madvise(data_, size_, MADV_DONTNEED);
}

Memory::~Memory() {
  if (data_ != nullptr && shared_ == nullptr) munmap(data_, size_);
}

}  // namespace pagoda
