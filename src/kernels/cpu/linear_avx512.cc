// linear for CpuLevel::avx512.
#include "kernels/cpu/simd_avx512.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/linear_inl.h"

namespace pagoda::cpu {
const LinearKernels LinearKernels::avx512 = kLinearKernels;
}  // namespace pagoda::cpu
