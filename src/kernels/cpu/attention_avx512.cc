// attention for CpuLevel::avx512.
#include "kernels/cpu/simd_avx512.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/attention_inl.h"

namespace pagoda::cpu {
const AttentionKernels AttentionKernels::avx512 = kAttentionKernels;
}  // namespace pagoda::cpu
