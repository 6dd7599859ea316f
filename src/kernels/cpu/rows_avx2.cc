// The row-wise ops for CpuLevel::avx2.
#if defined(__x86_64__)
#include "kernels/cpu/simd_avx2.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/rows_inl.h"

namespace pagoda::cpu {
const RowKernels& row_kernels_avx2() { return kRowKernels; }
}  // namespace pagoda::cpu
#endif
