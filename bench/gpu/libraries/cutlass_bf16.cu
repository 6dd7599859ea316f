// Products in bfloat16.
#include "cutlass_product.cuh"

namespace pagoda::device {

using namespace cute;

Planned plan_bf16_many(const LibraryProduct& args) {
  return CutlassProduct<cutlass::bfloat16_t, Shape<_128, _256, _64>, Shape<_2, _1, _1>,
                        cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                        cutlass::epilogue::TmaWarpSpecializedCooperative, false>::plan(args);
}

}  // namespace pagoda::device
