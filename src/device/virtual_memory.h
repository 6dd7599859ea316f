#pragma once
// VirtualMemory: addresses without memory, and memory without an address, as the CUDA driver's cuMem*
// functions have them. All sizes and addresses are multiples of granule(). Errors are invalid_argument and
// resource_exhausted and do not stick. Calls are done when they return: what runs and touches what changes is
// a fault. Threads: one caller; map(), set_access() and unmap() may be called by one more.
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
  virtual Status release(std::byte* addresses) = 0;  // nothing is mapped there any more
  virtual Result<PhysicalId> create_physical(std::size_t bytes) = 0;
  virtual Status destroy_physical(PhysicalId memory) = 0;  // it is mapped nowhere
  // The whole memory, from `address` on, where none is. It may be mapped elsewhere, too.
  virtual Status map(std::byte* address, PhysicalId memory) = 0;
  // Gives access to whole mappings. Before it, nothing may touch them.
  virtual Status set_access(std::byte* address, std::size_t bytes) = 0;
  virtual Status unmap(std::byte* address, std::size_t bytes) = 0;
};

}  // namespace pagoda::device
