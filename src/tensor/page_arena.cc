#include "tensor/page_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/strings.h"
#include "tensor/memory.h"
#include "tensor/system_limits.h"

namespace pagoda {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 46;       // address space; there are 2^47 bytes
constexpr std::int64_t kMemoryMargin = std::int64_t{64} << 20;  // left to other processes
constexpr int kAnywhere = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Reserves enough for an aligned piece of `bytes`.
Status reserve(std::int64_t bytes, int protection, void*& base, std::size_t& size, std::byte*& aligned) {
  size = static_cast<std::size_t>(bytes + kHugePage);
  base = mmap(nullptr, size, protection, kAnywhere, -1, 0);
  if (base == MAP_FAILED) {
    base = nullptr;
    return reservation_refused(size);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const auto align = static_cast<std::uintptr_t>(kHugePage);
  aligned = static_cast<std::byte*>(base) + ((address + align - 1) / align * align - address);
  return ok_status();
}

int protection_of_gaps(const PageArenaShape& shape) { return shape.gaps_are_zeros ? PROT_READ : PROT_NONE; }

// Commits zero-filled pages, as large as the system provides. Falls back to plain allocation on kernels
// before 5.14.
int commit(int file, std::byte* window, std::int64_t offset, std::int64_t bytes) {
  for (;;) {
#ifdef MADV_POPULATE_WRITE
    if (madvise(window + offset, static_cast<std::size_t>(bytes), MADV_POPULATE_WRITE) == 0) return 0;
    if (errno != EINVAL && errno != EINTR && errno != EAGAIN) return errno;
    if (errno != EINVAL) continue;
#endif
    if (fallocate(file, 0, offset, bytes) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

Result<PageArena> PageArena::create(const PageArenaShape& shape) {
  if (shape.page_bytes < kPageGranule || shape.page_bytes % kPageGranule != 0) {
    return invalid_argument(
        concat("a page of ", shape.page_bytes, " bytes is not a multiple of ", kPageGranule));
  }
  if (shape.num_tensors < 1 || shape.num_pages < 1 || shape.num_blocks < 1)
    return invalid_argument("a page arena without tensors, pages or blocks");
  const std::int64_t unit = shape.page_bytes * shape.num_tensors;
  if (shape.page_bytes > kMaxBytes / shape.num_tensors || shape.num_blocks > kMaxBytes / unit ||
      shape.num_pages > kMaxBytes / unit) {
    return resource_exhausted(concat(shape.num_blocks, " virtual blocks of ", unit,
                                     " bytes are more address space than available: use fewer slots or a "
                                     "shorter context"));
  }
  PageArena arena;
  arena.shape_ = shape;
  PAGODA_RETURN_IF_ERROR(reserve(unit * shape.num_blocks, protection_of_gaps(shape), arena.arena_base_,
                                 arena.arena_bytes_, arena.arena_));
  PAGODA_RETURN_IF_ERROR(
      reserve(unit * shape.num_pages, PROT_NONE, arena.window_base_, arena.window_bytes_, arena.window_));
  arena.file_ = memfd_create("pagoda-kv", MFD_CLOEXEC);
  if (arena.file_ < 0 || ftruncate(arena.file_, unit * shape.num_pages) != 0)
    return resource_exhausted(concat("cannot create the file of KV pages: ", std::strerror(errno)));
  const auto window_bytes = static_cast<std::size_t>(unit * shape.num_pages);
  if (mmap(arena.window_, window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, arena.file_, 0) ==
      MAP_FAILED) {
    return resource_exhausted(concat("cannot map the file of KV pages: ", std::strerror(errno)));
  }
  madvise(arena.window_, window_bytes, MADV_HUGEPAGE);
  madvise(arena.window_, window_bytes, MADV_DONTDUMP);
  return arena;
}

PageArena::~PageArena() {
  if (arena_base_ != nullptr) munmap(arena_base_, arena_bytes_);
  if (window_base_ != nullptr) munmap(window_base_, window_bytes_);
  if (file_ >= 0) close(file_);
}

void PageArena::swap(PageArena& other) noexcept {
  std::swap(shape_, other.shape_);
  std::swap(file_, other.file_);
  std::swap(num_created_, other.num_created_);
  std::swap(arena_base_, other.arena_base_);
  std::swap(window_base_, other.window_base_);
  std::swap(arena_bytes_, other.arena_bytes_);
  std::swap(window_bytes_, other.window_bytes_);
  std::swap(arena_, other.arena_);
  std::swap(window_, other.window_);
}

Status PageArena::create_pages(std::int64_t first, std::int64_t count) {
  CHECK(first == num_created_ && count >= 0 && first + count <= shape_.num_pages);
  const std::int64_t bytes = count * shape_.page_bytes * shape_.num_tensors;
  const std::int64_t available = available_memory_bytes();
  if (available < bytes + kMemoryMargin)
    return resource_exhausted(
        concat("not enough memory for ", bytes, " bytes of KV pages: ", available, " bytes are available"));
  num_created_ += count;
  return ok_status();
}

bool PageArena::populate(std::int64_t first, std::int64_t count) {
  CHECK(first >= 0 && count >= 0 && first + count <= num_created_);
  for (std::int32_t tensor = 0; tensor < shape_.num_tensors; ++tensor) {
    if (commit(file_, window_, (tensor * shape_.num_pages + first) * shape_.page_bytes,
               count * shape_.page_bytes) != 0)
      return false;
  }
  return true;
}

void PageArena::discard(std::int64_t first, std::int64_t count) {
  CHECK(first >= 0 && count >= 0 && first + count <= num_created_);
  for (std::int32_t tensor = 0; tensor < shape_.num_tensors; ++tensor) {
    // On failure the memory simply stays allocated.
    while (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     (tensor * shape_.num_pages + first) * shape_.page_bytes,
                     count * shape_.page_bytes) != 0 &&
           errno == EINTR) {
    }
  }
}

Status PageArena::map(std::int64_t block, std::int64_t page, std::int64_t count) {
  CHECK(block >= 0 && count > 0 && block + count <= shape_.num_blocks);
  CHECK(page >= 0 && page + count <= shape_.num_pages);
  const auto bytes = static_cast<std::size_t>(count * shape_.page_bytes);
  for (std::int32_t tensor = 0; tensor < shape_.num_tensors; ++tensor) {
    std::byte* const address = arena_ + tensor * tensor_stride() + block * shape_.page_bytes;
    const std::int64_t offset = (tensor * shape_.num_pages + page) * shape_.page_bytes;
    // Populated, since a later page fault would cost the step more than this call.
    if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file_, offset) ==
        MAP_FAILED)
      return resource_exhausted(concat("cannot map ", bytes, " bytes of KV pages: ", std::strerror(errno)));
  }
  return ok_status();
}

Status PageArena::unmap(std::int64_t block, std::int64_t count) {
  CHECK(block >= 0 && count > 0 && block + count <= shape_.num_blocks);
  const auto bytes = static_cast<std::size_t>(count * shape_.page_bytes);
  for (std::int32_t tensor = 0; tensor < shape_.num_tensors; ++tensor) {
    std::byte* const address = arena_ + tensor * tensor_stride() + block * shape_.page_bytes;
    if (mmap(address, bytes, protection_of_gaps(shape_), kAnywhere | MAP_FIXED, -1, 0) == MAP_FAILED)
      return resource_exhausted(concat("cannot unmap ", bytes, " bytes: ", std::strerror(errno)));
  }
  return ok_status();
}

}  // namespace pagoda
