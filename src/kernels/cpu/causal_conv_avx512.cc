// The causal convolution for CpuLevel::avx512.
#if defined(__x86_64__)
#include "kernels/cpu/simd_avx512.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/causal_conv_inl.h"

namespace pagoda::cpu {
CausalConv causal_conv_avx512() { return causal_conv; }
}  // namespace pagoda::cpu
#endif
