// linear for CpuLevel::avx2.
#include "kernels/cpu/simd_avx2.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
const LinearKernels LinearKernels::avx2 = kLinearKernels;
}  // namespace pagoda::cpu
