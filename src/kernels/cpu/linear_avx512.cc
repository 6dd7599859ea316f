// linear for CpuLevel::avx512.
#include "kernels/cpu/simd_avx512.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
const LinearKernels LinearKernels::avx512 = kLinearKernels;
}  // namespace pagoda::cpu
