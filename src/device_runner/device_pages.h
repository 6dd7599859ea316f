#pragma once
// DevicePages: the device's PageArena (tensor/page_arena.h): reserved addresses of a Device, and physical
// pages that can be mapped anywhere in them, also several times, with the same block and page numbers. Each
// page is a piece of physical memory for each tensor, created once and kept: a driver takes a millisecond to
// create one, and an idle one costs nothing beyond the memory of the cache. A window onto all pages, with all
// tensors of a page together, serves copies and swaps. Errors: the device's. Threads: as PageArena: map() and
// unmap() by one thread at a time, concurrently with the device's caller. Source: vAttention (arXiv
// 2405.04437) §5. The device must outlive it.
#include <vector>

#include "device/virtual_memory.h"
#include "tensor/page_arena.h"

namespace pagoda::device_runner {

class DevicePages {
 public:
  // invalid_argument: page_bytes is not a multiple of the device's granule.
  static Result<DevicePages> create(device::VirtualMemory& device, const PageArenaShape& shape);
  DevicePages(DevicePages&& other) noexcept;
  DevicePages& operator=(DevicePages&&) = delete;
  ~DevicePages();

  Status create_pages(std::int64_t first, std::int64_t count);  // all or none
  std::int64_t num_created() const { return num_created_; }
  void discard(std::int64_t, std::int64_t) {}  // pages are kept

  Status map(std::int64_t block, std::int64_t page, std::int64_t count);  // replaces earlier mappings
  Status unmap(std::int64_t block, std::int64_t count);                   // unmaps those blocks

  std::byte* data() const { return arena_; }
  // All tensors' pieces of page 0, of page 1, …; copies use page numbers.
  std::byte* window() const { return window_; }
  std::int64_t page_stride() const { return shape_.page_bytes * shape_.num_tensors; }
  std::int64_t tensor_stride() const { return shape_.num_blocks * shape_.page_bytes; }
  const PageArenaShape& shape() const { return shape_; }
  std::int64_t bytes() const { return num_created_ * page_stride(); }

 private:
  explicit DevicePages(device::VirtualMemory& device, const PageArenaShape& shape)
      : device_(&device), shape_(shape) {}
  Status show(std::byte* at, device::PhysicalId memory);
  void drop_memory(std::int64_t kept);
  std::byte* address(std::int64_t block, std::int64_t tensor) const {
    return arena_ + tensor * tensor_stride() + block * shape_.page_bytes;
  }

  device::VirtualMemory* device_;  // null: moved from
  PageArenaShape shape_;
  std::byte *arena_ = nullptr, *window_ = nullptr;
  std::int64_t num_created_ = 0;
  std::vector<device::PhysicalId> memory_;  // [page][tensor], for all pages; only num_memory_ exist
  std::int64_t num_memory_ = 0;
  std::vector<bool> shown_;  // by block
};

}  // namespace pagoda::device_runner
