// Products of some tens or hundreds of rows in bfloat16.
#include "cutlass_product.cuh"

namespace pagoda::device {

using namespace cute;

Planned plan_bf16_some(const LibraryProduct& args) {
  return CutlassProduct<cutlass::bfloat16_t, Shape<_64, _128, _64>, Shape<_1, _1, _1>,
                        cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                        cutlass::epilogue::TmaWarpSpecialized, false>::plan(args);
}

}  // namespace pagoda::device
