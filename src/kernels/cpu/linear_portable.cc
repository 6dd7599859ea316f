// linear for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
const LinearKernels LinearKernels::portable = kLinearKernels;
}  // namespace pagoda::cpu
