// The kernels, compiled for the host with a hook at every access (access_hooks.cc).
#include <array>

#include "device/kernel_table.h"

#if defined(PAGODA_NO_EMULATED_KERNELS)
std::span<const pagoda::device::Kernel> pagoda::device::emulated_kernels() { return {}; }
#else
#include "device/kernels/all_kernels.cuh"

namespace pagoda::device {
namespace {

template <auto kernel, class Args>
void invoke(const void* args) {
  kernel(*static_cast<const Args*>(args));
}

// Not a local static: the guard of its first call would be hooked, too.
const std::array table = {
#define PAGODA_KERNEL(name, Args) \
  Kernel{#name, reinterpret_cast<const void*>(&invoke<kernels::name, Args>), sizeof(Args)},
#include "device/kernels/kernels.def"
#undef PAGODA_KERNEL
};

}  // namespace

std::span<const Kernel> emulated_kernels() { return table; }

}  // namespace pagoda::device
#endif
