// The available kernels of CUTLASS.
#include "library_kernels.h"

namespace pagoda::device {

Planned plan_bf16_many(const LibraryProduct& args);
Planned plan_bf16_some(const LibraryProduct& args);
Planned plan_bf16_few(const LibraryProduct& args);
Planned plan_fp8_many(const LibraryProduct& args);
Planned plan_fp8_few(const LibraryProduct& args);
Planned plan_fp8_blocks(const LibraryProduct& args);

std::span<const ProductKernel> cutlass_products() {
  static constexpr ProductKernel kKernels[] = {
      {"64x16x128, swapped", "bf16", plan_bf16_few}, {"64x128x64", "bf16", plan_bf16_some},
      {"128x256x64 of two", "bf16", plan_bf16_many}, {"64x16x128, swapped", "fp8", plan_fp8_few},
      {"128x256x128 of two", "fp8", plan_fp8_many},  {"128x128x128", "fp8_blocks", plan_fp8_blocks}};
  return kKernels;
}

}  // namespace pagoda::device
