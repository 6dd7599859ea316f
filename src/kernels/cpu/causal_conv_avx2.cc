// The causal convolution for CpuLevel::avx2.
#if defined(__x86_64__)
#include "kernels/cpu/simd_avx2.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/causal_conv_inl.h"

namespace pagoda::cpu {
CausalConv causal_conv_avx2() { return causal_conv; }
}  // namespace pagoda::cpu
#endif
