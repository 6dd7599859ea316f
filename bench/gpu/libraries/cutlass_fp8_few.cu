// Products of few rows of e4m3 by e4m3 without scales.
#include "cutlass_product.cuh"

namespace pagoda::device {

using namespace cute;

Planned plan_fp8_few(const LibraryProduct& args) {
  return CutlassProduct<cutlass::float_e4m3_t, Shape<_64, _16, _128>, Shape<_1, _1, _1>,
                        cutlass::gemm::KernelTmaWarpSpecializedFP8FastAccum,
                        cutlass::epilogue::TmaWarpSpecialized, true>::plan(args);
}

}  // namespace pagoda::device
