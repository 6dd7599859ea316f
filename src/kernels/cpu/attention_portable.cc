// attention for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/attention_inl.h"

namespace pagoda::cpu {
const AttentionKernels AttentionKernels::portable = kAttentionKernels;
}  // namespace pagoda::cpu
