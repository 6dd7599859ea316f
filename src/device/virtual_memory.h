#pragma once
// VirtualMemory: addresses without memory, and memory without an address, as in the cuMem* functions of the
// CUDA driver. All sizes and addresses are multiples of granule(). Errors are invalid_argument and
// resource_exhausted, and are not sticky. Calls are complete when they return: running work that touches what
// a call changes is a fault. Threads: one caller; one more may call map(), set_access() and unmap().
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace pagoda::device {

enum class PhysicalId : std::int32_t {};

class VirtualMemory {
 public:
  virtual ~VirtualMemory() = default;

  virtual std::size_t granule() const = 0;
  virtual Result<std::byte*> reserve(std::size_t bytes) = 0;
  virtual Status release(std::byte* addresses) = 0;  // nothing may be mapped there
  virtual Result<PhysicalId> create_physical(std::size_t bytes) = 0;
  virtual Status destroy_physical(PhysicalId memory) = 0;  // must not be mapped anywhere
  // Maps all of `memory` at `address`, where nothing may be mapped. It may also be mapped elsewhere.
  virtual Status map(std::byte* address, PhysicalId memory) = 0;
  // Gives access to whole mappings. Before this call, nothing may touch them.
  virtual Status set_access(std::byte* address, std::size_t bytes) = 0;
  virtual Status unmap(std::byte* address, std::size_t bytes) = 0;
};

}  // namespace pagoda::device
