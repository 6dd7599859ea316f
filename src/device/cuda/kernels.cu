// The kernels, compiled by nvcc (cmake/cuda.cmake).
#include "device/kernel_table.h"
#include "device/kernels/all_kernels.cuh"

namespace pagoda::device {

std::span<const Kernel> cuda_kernels() {
  static const Kernel table[] = {
#define PAGODA_KERNEL(name, Args) {#name, reinterpret_cast<const void*>(&kernels::name), sizeof(Args)},
#include "device/kernels/kernels.def"
#undef PAGODA_KERNEL
  };
  return table;
}

}  // namespace pagoda::device
