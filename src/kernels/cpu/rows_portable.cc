// The row-wise ops for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/rows_inl.h"

namespace pagoda::cpu {
const RowKernels& row_kernels_portable() { return kRowKernels; }
}  // namespace pagoda::cpu
