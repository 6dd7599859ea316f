#pragma once
// For tests and benchmarks: the device under test: an emulated one, or, with PAGODA_TEST_DEVICE=cuda, the GPU
// (bench/gpu/run). PAGODA_TEST_EARLY_LAUNCH=0 or 1 sets how it launches (Device::launch_early).
#include <cstdlib>
#include <memory>
#include <string_view>

#include "device/cuda/cuda_device.h"
#include "device/emulated/emulated_device.h"

namespace pagoda::device {

// Multiplications are slow on an emulated device: tests try a sample of the cases, or all of them with
// PAGODA_FULL_GOLDENS=1, as the device tiers do.
inline bool tries_all() { return std::getenv("PAGODA_FULL_GOLDENS") != nullptr; }

inline Result<std::unique_ptr<Device>> open_test_device(const emulated::EmulatedOptions& options = {}) {
  const char* const kind = std::getenv("PAGODA_TEST_DEVICE");
  if (kind != nullptr && std::string_view(kind) == "cuda") {
    // A watch of Xid errors ends only after its current wait: a quarter of a second per device of a test.
    auto device = open_cuda_device(0, XidErrors::unwatched);
    const char* const early = std::getenv("PAGODA_TEST_EARLY_LAUNCH");
    if (device && early != nullptr) (*device)->launch_early(std::string_view(early) == "1");
    return device;
  }
  auto device = emulated::EmulatedDevice::create(options);
  if (!device) return device.error();
  return std::unique_ptr<Device>(*std::move(device));
}

}  // namespace pagoda::device
