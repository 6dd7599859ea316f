// attention for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/attention_inl.h"

namespace pagoda::cpu {
const AttentionKernels AttentionKernels::portable = kAttentionKernels;
}  // namespace pagoda::cpu
