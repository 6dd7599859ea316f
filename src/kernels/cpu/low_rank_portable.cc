// Low-rank adapters' products for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/low_rank_inl.h"

namespace pagoda::cpu {
const LowRankKernels& low_rank_kernels_portable() { return kLowRankKernels; }
}  // namespace pagoda::cpu
