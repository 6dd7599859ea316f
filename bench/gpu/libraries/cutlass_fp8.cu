// Products of e4m3 by e4m3 without scales, fast accumulation.
#include "cutlass_product.cuh"

namespace pagoda::device {

using namespace cute;

Planned plan_fp8_many(const LibraryProduct& args) {
  return CutlassProduct<cutlass::float_e4m3_t, Shape<_128, _256, _128>, Shape<_2, _1, _1>,
                        cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum,
                        cutlass::epilogue::TmaWarpSpecializedCooperative, false>::plan(args);
}

}  // namespace pagoda::device
