// attention for CpuLevel::avx2.
#include "kernels/cpu/simd_avx2.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/attention_inl.h"

namespace pagoda::cpu {
const AttentionKernels AttentionKernels::avx2 = kAttentionKernels;
}  // namespace pagoda::cpu
