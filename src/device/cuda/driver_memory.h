#pragma once
// DriverMemory: VirtualMemory by the CUDA driver's calls, which are looked up by name: the program is built
// and started without a driver, and a test supplies its own. Needs no CUDA headers. Run on a fake driver
// (kv_library/fake_cuda_driver.cpp) and on an H200's (docs/devices.md). Source: CUDA Driver API, "Virtual
// Memory Management". Threads: VirtualMemory's.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/virtual_memory.h"

namespace pagoda::device {

// The address of the driver's function of this name; null if the driver lacks it.
using DriverLookUp = std::function<void*(const char* name)>;

// As in cuda.h; cuda_device.cc checks them against it.
struct DriverLocation {
  std::int32_t type = 1;  // a device
  std::int32_t id = 0;
};
struct DriverAllocation {
  std::int32_t type = 1;  // pinned: it is not moved
  std::int32_t handle_types = 0;
  DriverLocation location;
  void* windows = nullptr;
  std::uint8_t compression = 0, remote = 0;
  std::uint16_t usage = 0;
  std::uint8_t reserved[4] = {};
};
struct DriverAccess {
  DriverLocation location;
  std::int32_t flags = 3;  // read and write
};

class DriverMemory final : public VirtualMemory {
 public:
  // For this device. unavailable: the driver lacks some of the calls.
  static Result<std::unique_ptr<DriverMemory>> create(const DriverLookUp& look_up, std::int32_t device);

  std::size_t granule() const override { return granule_; }
  Result<std::byte*> reserve(std::size_t bytes) override;
  Status release(std::byte* addresses) override;
  Result<PhysicalId> create_physical(std::size_t bytes) override;
  Status destroy_physical(PhysicalId memory) override;
  Status map(std::byte* address, PhysicalId memory) override;
  Status set_access(std::byte* address, std::size_t bytes) override;
  Status unmap(std::byte* address, std::size_t bytes) override;

 private:
  using Address = unsigned long long;
  struct Calls {
    int (*granularity)(std::size_t* granule, const DriverAllocation* allocation, int minimum) = nullptr;
    int (*reserve)(Address* address, std::size_t bytes, std::size_t alignment, Address wish,
                   unsigned long long flags) = nullptr;
    int (*release)(Address address, std::size_t bytes) = nullptr;
    int (*create)(unsigned long long* handle, std::size_t bytes, const DriverAllocation* allocation,
                  unsigned long long flags) = nullptr;
    int (*destroy)(unsigned long long handle) = nullptr;
    int (*map)(Address address, std::size_t bytes, std::size_t offset, unsigned long long handle,
               unsigned long long flags) = nullptr;
    int (*set_access)(Address address, std::size_t bytes, const DriverAccess* access,
                      std::size_t count) = nullptr;
    int (*unmap)(Address address, std::size_t bytes) = nullptr;
  };
  struct Physical {
    unsigned long long handle = 0;
    std::size_t bytes = 0;
  };

  Calls calls_;
  DriverAllocation allocation_;
  std::size_t granule_ = 0;
  std::map<std::byte*, std::size_t> reserved_;  // with their sizes
  std::mutex mutex_;                            // guards physical_, which map() reads
  std::vector<Physical> physical_;
};

// The status of a driver call. resource_exhausted: out of memory; invalid_argument: everything else.
Status driver_answer(int result, const char* call);

}  // namespace pagoda::device
