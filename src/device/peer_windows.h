#pragma once
// Windows: memory of one device that kernels of other devices of the machine read and write. Each device
// belongs to its own process or thread. The owner creates a window and sends its handle to the others, which
// open it. Windows live as long as their devices.
#include <array>
#include <cstddef>

#include "base/status.h"

namespace pagoda::device {

// Plain bytes that can be sent to another process of the machine.
struct WindowHandle {
  std::array<std::byte, 128> bytes = {};
};

struct Window {
  std::byte* memory = nullptr;  // at a multiple of 256
  WindowHandle handle;
};

// Errors: unavailable: this device cannot access that window; the device's. Threads: the device's caller.
class PeerWindows {
 public:
  virtual ~PeerWindows() = default;
  virtual Result<Window> create_window(std::size_t bytes) = 0;
  // Returns the address at which this device accesses another device's window.
  virtual Result<std::byte*> open_window(const WindowHandle& handle) = 0;
};

}  // namespace pagoda::device
