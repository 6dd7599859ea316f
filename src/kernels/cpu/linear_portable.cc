// linear for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
const LinearKernels LinearKernels::portable = kLinearKernels;
}  // namespace pagoda::cpu
