#pragma once
// XidWatch: waits for what the driver reports of a GPU by number (Xid), also while nothing runs there. Errors
// of the hardware lose the device. All other numbers are logged: they are errors of programs, which may be
// another's on the same GPU (the CUDA calls of the one that made them fail), or warnings. Says nothing of a
// GPU that merely takes long. Through NVML (libnvidia-ml), which is opened here: where there is none, nothing
// is watched. Nothing wakes a wait in NVML, so that its end may take a quarter of a second. Held against a
// fake library in its test; run on no GPU yet. Source: NVML API reference, "Event Handling Methods"; NVIDIA,
// "Xid Errors". Threads: one of its own, which calls `lost`. Owner: the CUDA device.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "base/status.h"

namespace pagoda::device {

// An Xid that ends the use of the hardware, in NVIDIA's words; null: it is none of these.
const char* fatal_xid(std::uint64_t xid);

class XidWatch {
 public:
  // Watches the GPU at this PCI address ("00000000:65:00.0"). `lost` is called once at most, with
  // unavailable; it must not destroy the watch. unavailable: no library of these names is there, or it lacks
  // a call, or it does not give events. `names`: for tests.
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
  std::jthread thread_;  // last: it uses the others
};

}  // namespace pagoda::device
