// attention for CpuLevel::avx2.
#include "kernels/cpu/simd_avx2.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/attention_inl.h"

namespace pagoda::cpu {
const AttentionKernels AttentionKernels::avx2 = kAttentionKernels;
}  // namespace pagoda::cpu
