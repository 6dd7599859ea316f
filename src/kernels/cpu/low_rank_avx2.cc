// Low-rank adapters' products for CpuLevel::avx2.
#if defined(__x86_64__)
#include "kernels/cpu/simd_avx2.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/low_rank_inl.h"

namespace pagoda::cpu {
const LowRankKernels& low_rank_kernels_avx2() { return kLowRankKernels; }
}  // namespace pagoda::cpu
#endif
