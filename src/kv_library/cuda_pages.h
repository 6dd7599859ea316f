#pragma once
// CudaPages: a GPU's memory as PageMapperOf takes it: the CUDA driver's library, opened at run time, its
// primary context of a device, and DevicePages on its virtual memory. Not here: whose pages they are.
// Run on a fake driver (fake_cuda_driver.cpp) and on an H200's (bench/gpu/kv_library).
// Threads: DevicePages'; each call makes the context current for its thread.
#include <memory>

#include "device/cuda/driver_memory.h"
#include "device_runner/device_pages.h"

namespace pagoda {

class CudaPages {
 public:
  // unavailable: the library or one of its calls is not there, or there is no such device.
  static Result<CudaPages> create(const char* library, std::int32_t device, const PageArenaShape& shape);
  CudaPages(CudaPages&&) noexcept;
  CudaPages& operator=(CudaPages&&) = delete;
  ~CudaPages();

  Status create_pages(std::int64_t first, std::int64_t count);
  void discard(std::int64_t, std::int64_t) {}  // they stay
  Status map(std::int64_t block, std::int64_t page, std::int64_t count);
  Status unmap(std::int64_t block, std::int64_t count);
  Status wait() const;                       // for all that runs in the context
  Status order(std::uint64_t stream) const;  // the stream goes on behind copy()'s copies
  // The first `bytes` of a page's piece in a tensor, to another's, on the legacy default stream.
  Status copy(std::int64_t from, std::int64_t to, std::int32_t tensor, std::size_t bytes) const;

  std::byte* data() const { return pages_->data(); }
  std::int64_t tensor_stride() const { return pages_->tensor_stride(); }
  const PageArenaShape& shape() const { return pages_->shape(); }

 private:
  struct Driver;
  CudaPages();

  std::unique_ptr<Driver> driver_;
  std::unique_ptr<device::DriverMemory> memory_;
  std::unique_ptr<device_runner::DevicePages> pages_;
};

}  // namespace pagoda
