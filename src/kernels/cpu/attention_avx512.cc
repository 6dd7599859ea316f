// attention for CpuLevel::avx512.
#include "kernels/cpu/simd_avx512.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/attention_inl.h"

namespace pagoda::cpu {
const AttentionKernels AttentionKernels::avx512 = kAttentionKernels;
}  // namespace pagoda::cpu
