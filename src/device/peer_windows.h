#pragma once
// Windows: memory of one device that other devices of the machine read and write in their kernels, each
// device in a process, or in a thread, of its own. Its owner creates a window and tells the others its
// handle, which they open. Windows live as long as the devices.
#include <array>
#include <cstddef>

#include "base/status.h"

namespace pagoda::device {

// Plain bytes, to be sent to another process of the machine.
struct WindowHandle {
  std::array<std::byte, 128> bytes = {};
};

struct Window {
  std::byte* memory = nullptr;  // at a multiple of 256
  WindowHandle handle;
};

// Errors: unavailable: this device cannot reach that window; the device's. Threads: the device's caller.
class PeerWindows {
 public:
  virtual ~PeerWindows() = default;
  virtual Result<Window> create_window(std::size_t bytes) = 0;
  // Gives the address at which this device reaches another one's window.
  virtual Result<std::byte*> open_window(const WindowHandle& handle) = 0;
};

}  // namespace pagoda::device
