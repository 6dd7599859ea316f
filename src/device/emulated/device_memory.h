#pragma once
// DeviceMemory: the memory of an emulated device. Its address space is accessible to the process only from
// Open to close(): host code that reads it gets SIGSEGV instead of a right answer. Allocated memory is filled
// with 0xFF, which is NaN in every float type and -1 as an integer. Freed memory is never reused, so that use
// after free is found. Gaps between allocations are never accessible. Reserved addresses and their mappings
// (virtual_space.h) are device memory, too. Threads: one; with_space() may be called by others. Owner:
// EmulatedDevice.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/emulated/access_shadow.h"
#include "device/emulated/virtual_space.h"

namespace pagoda::device::emulated {

class DeviceMemory {
 public:
  // `capacity`: maximum number of bytes allocated at a time.
  static Result<DeviceMemory> create(std::size_t capacity, std::size_t granule);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  Result<std::byte*> allocate(std::size_t bytes, std::string_view name);
  Status free(std::byte* memory);
  std::size_t free_bytes() const;
  // The size of the allocation that begins there; 0 if there is none.
  std::size_t bytes_at(const std::byte* memory) const;
  // Returns the result of run(VirtualSpace&), called while no kernel and no copy runs.
  template <class Do>
  auto with_space(const Do& run) {
    const std::lock_guard lock(*mutex_);
    return run(*space_);
  }
  std::size_t granule() const { return space_->granule(); }

  // Makes the memory accessible until close(); both operations walk the page tables of all of it. While an
  // Open exists, no other code may open or close the memory.
  class Open {
   public:
    explicit Open(DeviceMemory& memory) : lock_(*memory.mutex_) {
      if (!memory.open_) memory.protect(true);
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    std::lock_guard<std::mutex> lock_;
  };
  void close() {
    const std::lock_guard lock(*mutex_);
    if (open_) protect(false);
  }

  bool contains(std::uintptr_t address) const { return allocates(address) || space_->contains(address); }
  // Records an access; returns what is wrong with it, or an empty string. Needs contains(address). `known`:
  // as in AccessShadow, for memory that is not virtual.
  std::string access(std::uintptr_t address, std::size_t size, const AccessStamp& now,
                     const AccessShadow::IsKnown& known = {});
  // True if no kernel has written to that allocation, as for weights. Needs contains(address).
  bool is_constant(std::uintptr_t address) const;
  // The fault in an access to the whole range from outside of kernels; empty if none.
  std::string range(const std::byte* from, std::size_t size) const;

 private:
  struct Allocation {
    std::string name;
    std::size_t offset = 0, bytes = 0;
    bool freed = false;
    bool written = false;  // by a kernel
    AccessShadow shadow;
  };
  static constexpr std::size_t kUnit = 256;        // alignment
  static constexpr std::size_t kGuard = 2 * 4096;  // between allocations

  DeviceMemory() = default;
  bool allocates(std::uintptr_t address) const { return address - base() < address_bytes_; }
  void protect(bool open);
  std::uintptr_t base() const { return reinterpret_cast<std::uintptr_t>(data_); }
  // The allocation that holds an address, or else the last one before it; null if the address precedes all.
  const Allocation* find(std::uintptr_t address) const;
  std::string fault(const Allocation* near, std::uintptr_t address, std::size_t size) const;

  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0;
  std::size_t address_bytes_ = 0, next_ = 0;  // offsets from next_ on were never given out
  bool open_ = false;
  std::unique_ptr<std::mutex> mutex_;  // guards the open ranges and space_
  std::unique_ptr<VirtualSpace> space_;
  std::vector<Allocation> allocations_;  // ascending
  mutable std::size_t last_found_ = 0;
};

// "writes 4 bytes" and the like.
std::string describe_access(AccessKind kind, std::size_t size);

}  // namespace pagoda::device::emulated
