#pragma once
// CudaPages: GPU memory in the form that PageMapperOf expects. It opens the CUDA driver library at run time,
// retains the primary context of a device, and uses DevicePages on the driver's virtual memory. It does not
// decide who owns a page. Tested on a fake driver (fake_cuda_driver.cpp) and on an H200
// (bench/gpu/kv_library).
// Threads: as for DevicePages; each call makes the context current for its thread.
#include <memory>

#include "device/cuda/driver_memory.h"
#include "device_runner/device_pages.h"

namespace pagoda {

class CudaPages {
 public:
  // unavailable: the library, one of its functions or the device does not exist.
  static Result<CudaPages> create(const char* library, std::int32_t device, const PageArenaShape& shape);
  CudaPages(CudaPages&&) noexcept;
  CudaPages& operator=(CudaPages&&) = delete;
  ~CudaPages();

  Status create_pages(std::int64_t first, std::int64_t count);
  void discard(std::int64_t, std::int64_t) {}  // no-op: pages remain allocated
  Status map(std::int64_t block, std::int64_t page, std::int64_t count);
  Status unmap(std::int64_t block, std::int64_t count);
  Status wait() const;                       // until all work in the context is done
  Status order(std::uint64_t stream) const;  // makes the stream wait for the copies of copy()
  // Copies the first `bytes` of page `from` in a tensor to page `to`, on the legacy default stream.
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
