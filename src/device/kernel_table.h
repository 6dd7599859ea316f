#pragma once
// The kernels of every device, by id: one per line of kernels/kernels.def.
#include <span>

#include "device/device.h"
#include "device/kernels/float8_args.h"
#include "device/kernels/layer_args.h"
#include "device/kernels/rank_args.h"

namespace pagoda::device {

enum class KernelId : std::int32_t {
#define PAGODA_KERNEL(name, Args) name,
#include "device/kernels/kernels.def"
#undef PAGODA_KERNEL
};

inline const Kernel& kernel(const Device& device, KernelId id) {
  return device.kernels()[static_cast<std::size_t>(id)];
}

// Device::kernels() of the emulated device. Empty in a build without emulated kernels (PAGODA_NATIVE).
std::span<const Kernel> emulated_kernels();

}  // namespace pagoda::device
