#pragma once
// DeviceMemory: the memory of an emulated device. It lies in address space that the process can touch only
// from Open to close(), so that host code which reads it ends with SIGSEGV instead of a right answer. What is
// allocated is full of 0xFF, which is NaN in every float type and -1 as an integer; what is freed is never
// used again, so that a late user is found. Between allocations nothing is mapped to anybody. Reserved
// addresses and what is mapped there (virtual_space.h) are the device's memory, too.
// Threads: one; with_space() may be called by others. Owner: EmulatedDevice.
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
  // `capacity`: of what is allocated at a time, in bytes.
  static Result<DeviceMemory> create(std::size_t capacity, std::size_t granule);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  Result<std::byte*> allocate(std::size_t bytes, std::string_view name);
  Status free(std::byte* memory);
  std::size_t free_bytes() const;
  // The size of the allocation that begins there; 0: there is none.
  std::size_t bytes_at(const std::byte* memory) const;
  // The result of do(VirtualSpace&), while no kernel and no copy runs.
  template <class Do>
  auto with_space(const Do& run) {
    const std::lock_guard lock(*mutex_);
    return run(*space_);
  }
  std::size_t granule() const { return space_->granule(); }

  // Lets the memory be touched, until close(): to open and to close walks the page tables of all of it. While
  // one lives, nobody else opens or closes it.
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
  // Notes an access; empty, or what is wrong with it. Needs contains(address). `known`: as AccessShadow has
  // it, of what is no virtual memory.
  std::string access(std::uintptr_t address, std::size_t size, const AccessStamp& now,
                     const AccessShadow::IsKnown& known = {});
  // Whether no kernel has written to that allocation: those of weights. Needs contains(address).
  bool is_constant(std::uintptr_t address) const;
  // The fault in touching the whole range from outside of kernels; empty: none.
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
  // The allocation that holds an address, or the last one before it; null: it is before all.
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
