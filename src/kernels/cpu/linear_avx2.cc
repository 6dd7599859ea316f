// linear for CpuLevel::avx2.
#include "kernels/cpu/simd_avx2.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
const LinearKernels LinearKernels::avx2 = kLinearKernels;
}  // namespace pagoda::cpu
