// The causal convolution for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/causal_conv_inl.h"

namespace pagoda::cpu {
CausalConv causal_conv_portable() { return causal_conv; }
}  // namespace pagoda::cpu
