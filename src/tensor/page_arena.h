#pragma once
// PageArena: reserved address space, and physical pages that can be mapped anywhere in it, even several
// times: the CPU counterpart of CUDA's virtual memory management. It deals in numbers of blocks and pages,
// not in their owners.
//     reserve  mmap(PROT_NONE)          create  ranges of one sparse memfd, for which there is memory now
//     map      mmap(MAP_SHARED, …)      unmap  mmap(PROT_NONE)      discard  a hole in the memfd
//   * Virtual block b of tensor t is at data() + t * tensor_stride() + b * page_bytes. A page has a piece in
//     every tensor; adjacent blocks on adjacent pages are mapped by one call per tensor. page(p, t) is a
//     window for copies.
//   * Limits cause errors, never signals: address space, mappings (vm.max_map_count), memory to commit.
// Source: vAttention (arXiv 2405.04437) §5. Threads: one thread may map while others use the rest.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace pagoda {

inline constexpr std::int64_t kPageGranule = 4096;  // page_bytes must be a multiple of this

struct PageArenaShape {
  std::int64_t page_bytes = 0;  // one block or page in one tensor
  std::int32_t num_tensors = 1;
  std::int64_t num_pages = 0;
  std::int64_t num_blocks = 0;  // virtual
  // True: unmapped blocks read as zeros. False: reading one raises a signal, as writing does.
  bool gaps_are_zeros = false;
};

class PageArena {
 public:
  PageArena() = default;
  // invalid_argument: invalid shape. resource_exhausted: the system refused the address space.
  static Result<PageArena> create(const PageArenaShape& shape);
  ~PageArena();
  PageArena(PageArena&& other) noexcept { swap(other); }
  PageArena& operator=(PageArena&& other) noexcept {
    swap(other);
    return *this;
  }

  // Makes pages [first, first + count) usable. resource_exhausted: the system lacks the memory for all of
  // them now, and no page is created. The memory is not taken before it is needed.
  Status create_pages(std::int64_t first, std::int64_t count);
  std::int64_t num_created() const { return num_created_; }  // pages [0, num_created)
  // Makes pages resident now. Returns false if the system did not; they become resident on use.
  bool populate(std::int64_t first, std::int64_t count);
  // Frees the memory of pages whose content is no longer needed.
  void discard(std::int64_t first, std::int64_t count);

  Status map(std::int64_t block, std::int64_t page, std::int64_t count);  // replaces earlier mappings
  Status unmap(std::int64_t block, std::int64_t count);

  std::byte* data() const { return arena_; }
  std::byte* page(std::int64_t page, std::int32_t tensor) const {
    return window_ + (tensor * shape_.num_pages + page) * shape_.page_bytes;
  }
  std::int64_t tensor_stride() const { return shape_.num_blocks * shape_.page_bytes; }
  const PageArenaShape& shape() const { return shape_; }
  std::int64_t bytes() const { return shape_.num_pages * shape_.num_tensors * shape_.page_bytes; }

 private:
  void swap(PageArena& other) noexcept;

  PageArenaShape shape_;
  int file_ = -1;
  std::int64_t num_created_ = 0;
  void *arena_base_ = nullptr, *window_base_ = nullptr;  // as mapped; arena_ and window_ are aligned
  std::size_t arena_bytes_ = 0, window_bytes_ = 0;
  std::byte *arena_ = nullptr, *window_ = nullptr;
};

}  // namespace pagoda
