#include "device_runner/device_pages.h"

#include <utility>

#include "base/strings.h"

namespace pagoda::device_runner {

Result<DevicePages> DevicePages::create(device::VirtualMemory& device, const PageArenaShape& shape) {
  const auto granule = static_cast<std::int64_t>(device.granule());
  if (shape.page_bytes < 1 || shape.page_bytes % granule != 0)
    return invalid_argument(
        concat("KV pages of ", shape.page_bytes, " bytes: this device maps multiples of ", granule));
  DevicePages pages(device, shape);
  auto arena = device.reserve(static_cast<std::size_t>(shape.num_blocks * pages.page_stride()));
  if (!arena) return arena.error();
  pages.arena_ = *arena;
  auto window = device.reserve(static_cast<std::size_t>(shape.num_pages * pages.page_stride()));
  if (!window) return window.error();
  pages.window_ = *window;
  pages.memory_.resize(static_cast<std::size_t>(shape.num_pages * shape.num_tensors));
  pages.shown_.resize(static_cast<std::size_t>(shape.num_blocks));
  return pages;
}

DevicePages::DevicePages(DevicePages&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      shape_(other.shape_),
      arena_(other.arena_),
      window_(other.window_),
      num_created_(other.num_created_),
      memory_(std::move(other.memory_)),
      num_memory_(other.num_memory_),
      shown_(std::move(other.shown_)) {}

// A lost device frees nothing.
DevicePages::~DevicePages() {
  if (device_ == nullptr) return;
  for (std::int64_t block = 0; block < std::ssize(shown_); ++block) (void)unmap(block, 1).ok();
  drop_memory(0);
  for (std::byte* const space : {arena_, window_})
    if (space != nullptr) (void)device_->release(space).ok();
}

void DevicePages::drop_memory(std::int64_t kept) {
  while (num_memory_ > kept) {
    std::byte* const at = window_ + --num_memory_ * shape_.page_bytes;
    (void)device_->unmap(at, static_cast<std::size_t>(shape_.page_bytes)).ok();
    (void)device_->destroy_physical(memory_[static_cast<std::size_t>(num_memory_)]).ok();
  }
}

Status DevicePages::show(std::byte* at, device::PhysicalId memory) {
  PAGODA_RETURN_IF_ERROR(device_->map(at, memory));
  return device_->set_access(at, static_cast<std::size_t>(shape_.page_bytes));
}

Status DevicePages::create_pages(std::int64_t first, std::int64_t count) {
  CHECK(first == num_created_ && count >= 0 && first + count <= shape_.num_pages);
  const std::int64_t before = num_memory_, end = (first + count) * shape_.num_tensors;
  while (num_memory_ < end) {
    auto memory = device_->create_physical(static_cast<std::size_t>(shape_.page_bytes));
    Status status = memory ? ok_status() : memory.error();
    if (memory) {
      memory_[static_cast<std::size_t>(num_memory_)] = *memory;
      status = show(window_ + num_memory_++ * shape_.page_bytes, *memory);
    }
    if (!status.ok()) {  // all or none
      drop_memory(before);
      return status;
    }
  }
  num_created_ += count;
  return ok_status();
}

Status DevicePages::map(std::int64_t block, std::int64_t page, std::int64_t count) {
  CHECK(block >= 0 && count > 0 && block + count <= shape_.num_blocks);
  CHECK(page >= 0 && page + count <= shape_.num_pages);  // the caller knows which pages exist
  PAGODA_RETURN_IF_ERROR(unmap(block, count));
  for (std::int64_t i = 0; i < count; ++i) {
    shown_[static_cast<std::size_t>(block + i)] = true;
    for (std::int32_t tensor = 0; tensor < shape_.num_tensors; ++tensor)
      PAGODA_RETURN_IF_ERROR(
          show(address(block + i, tensor),
               memory_[static_cast<std::size_t>((page + i) * shape_.num_tensors + tensor)]));
  }
  return ok_status();
}

Status DevicePages::unmap(std::int64_t block, std::int64_t count) {
  CHECK(block >= 0 && count > 0 && block + count <= shape_.num_blocks);
  for (std::int64_t at = block; at < block + count; ++at) {
    if (!shown_[static_cast<std::size_t>(at)]) continue;
    shown_[static_cast<std::size_t>(at)] = false;
    for (std::int32_t tensor = 0; tensor < shape_.num_tensors; ++tensor)
      PAGODA_RETURN_IF_ERROR(
          device_->unmap(address(at, tensor), static_cast<std::size_t>(shape_.page_bytes)));
  }
  return ok_status();
}

}  // namespace pagoda::device_runner
