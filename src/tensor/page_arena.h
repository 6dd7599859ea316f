#pragma once
// PageArena: reserved address space, and physical pages that can be mapped anywhere in it, also several
// times: the CPU's form of CUDA's virtual memory management. It knows blocks and pages by number, not their
// owners.
//     reserve  mmap(PROT_NONE)          create  ranges of one sparse memfd, for which there is memory now
//     map      mmap(MAP_SHARED, …)      unmap  mmap(PROT_NONE)      discard  a hole in the memfd
//   * Virtual block b of tensor t is at data() + t * tensor_stride() + b * page_bytes. A page has a piece in
//     every tensor; adjacent blocks on adjacent pages are mapped in one call a tensor. page(p, t) is a window
//     for copies.
//   * Limits are errors, never signals: address space, mappings (vm.max_map_count), memory to commit.
// Source: vAttention (arXiv 2405.04437) §5. Threads: one maps while others use the rest.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace pagoda {

inline constexpr std::int64_t kPageGranule = 4096;  // page_bytes is a multiple

struct PageArenaShape {
  std::int64_t page_bytes = 0;  // one block or page in one tensor
  std::int32_t num_tensors = 1;
  std::int64_t num_pages = 0;
  std::int64_t num_blocks = 0;  // virtual
  bool gaps_are_zeros =
      false;  // reading a block that shows no page gives zeros; else that is a signal, as writing
};

class PageArena {
 public:
  PageArena() = default;
  // invalid_argument: the shape. resource_exhausted: the system refuses the address space.
  static Result<PageArena> create(const PageArenaShape& shape);
  ~PageArena();
  PageArena(PageArena&& other) noexcept { swap(other); }
  PageArena& operator=(PageArena&& other) noexcept {
    swap(other);
    return *this;
  }

  // Pages [first, first + count) may be used from then on. resource_exhausted, with none of them created,
  // when the system has not the memory for all of them now; it is not taken before it is needed.
  Status create_pages(std::int64_t first, std::int64_t count);
  std::int64_t num_created() const { return num_created_; }  // pages 0 and on
  // Gives them memory now. False: the system did not; they get it when they are used.
  bool populate(std::int64_t first, std::int64_t count);
  // Takes it from them: nobody needs what they hold.
  void discard(std::int64_t first, std::int64_t count);

  Status map(std::int64_t block, std::int64_t page, std::int64_t count);  // replaces what was shown
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
  void *arena_base_ = nullptr, *window_base_ = nullptr;  // as mapped; the pointers below are aligned
  std::size_t arena_bytes_ = 0, window_bytes_ = 0;
  std::byte *arena_ = nullptr, *window_ = nullptr;
};

}  // namespace pagoda
