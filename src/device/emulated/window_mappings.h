#pragma once
// WindowMappings: the windows of emulated devices (../peer_windows.h) that a device can access: its own and
// those that it has opened. A window is an unnamed file, which another process of the same user opens by its
// descriptor number in the owner's process. It stays mapped as long as the device lives, so host code that
// accesses a window is not detected. Found: accesses beyond a window's end. Not found: races of ranks. It is
// filled with 0xFF when created. Threads: one. Owner: EmulatedDevice.
#include <cstdint>
#include <string>
#include <vector>

#include "device/peer_windows.h"

namespace pagoda::device::emulated {

class WindowMappings {
 public:
  WindowMappings() = default;
  WindowMappings(const WindowMappings&) = delete;
  WindowMappings& operator=(const WindowMappings&) = delete;
  ~WindowMappings();

  Result<Window> create(std::size_t bytes);
  Result<std::byte*> open(const WindowHandle& handle);
  std::size_t own_bytes() const { return own_bytes_; }

  bool contains(std::uintptr_t address) const { return find(address) != nullptr; }
  // The fault in accessing this many bytes from there; empty if none. Needs contains(address).
  std::string fault(std::uintptr_t address, std::size_t size) const;

 private:
  struct Mapping {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    int file = -1;  // the owner's
  };
  const Mapping* find(std::uintptr_t address) const;
  Result<std::byte*> map(int file, std::size_t bytes, bool own);

  std::vector<Mapping> mappings_;
  std::size_t own_bytes_ = 0;
};

}  // namespace pagoda::device::emulated
