#pragma once
// XidWatch: waits for errors that the driver reports about a GPU by number (Xid), also while nothing runs
// there. Hardware errors lose the device. All other numbers are logged: they are errors of programs, possibly
// another one on the same GPU (the CUDA calls of the program at fault fail), or warnings. Reports nothing
// about a GPU that is merely slow. Uses NVML (libnvidia-ml), which is opened here; without it, nothing is
// watched. A wait in NVML cannot be interrupted, so stopping may take a quarter of a second. Tested against a
// fake library; not yet run on a GPU. Source: NVML API reference, "Event Handling Methods"; NVIDIA, "Xid
// Errors". Threads: one of its own, which calls `lost`. Owner: the CUDA device.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "base/status.h"

namespace pagoda::device {

// NVIDIA's description of an Xid that ends the use of the hardware; null for any other Xid.
const char* fatal_xid(std::uint64_t xid);

class XidWatch {
 public:
  // Watches the GPU at this PCI address ("00000000:65:00.0"). `lost` is called at most once, with
  // unavailable; it must not destroy the watch. unavailable: no library with one of these names exists, or it
  // lacks a call, or it provides no events. `names`: for tests.
  static Result<std::unique_ptr<XidWatch>> start(const std::string& pci_address,
                                                 std::function<void(Status)> lost,
                                                 std::span<const char* const> names = {});
  ~XidWatch();
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;

 private:
  struct Library;

  XidWatch(std::unique_ptr<Library> library, std::string gpu, std::function<void(Status)> lost);
  void wait(const std::stop_token& stop);

  std::unique_ptr<Library> library_;
  std::string gpu_;
  std::function<void(Status)> lost_;
  std::jthread thread_;  // last: it uses the other members
};

}  // namespace pagoda::device
