// Products of few rows in bfloat16.
#include "cutlass_product.cuh"

namespace pagoda::device {

using namespace cute;

Planned plan_bf16_few(const LibraryProduct& args) {
  return CutlassProduct<cutlass::bfloat16_t, Shape<_64, _16, _128>, Shape<_1, _1, _1>,
                        cutlass::gemm::KernelTmaWarpSpecialized, cutlass::epilogue::TmaWarpSpecialized,
                        true>::plan(args);
}

}  // namespace pagoda::device
