// Chooses the row-wise ops of a level.
#include "kernels/cpu/rows.h"

namespace pagoda::cpu {

#if !defined(__x86_64__)
const RowKernels& row_kernels_avx512() { return row_kernels_portable(); }
const RowKernels& row_kernels_avx2() { return row_kernels_portable(); }
#endif

const RowKernels& row_kernels(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return row_kernels_avx512();
    case CpuLevel::avx2:
      return row_kernels_avx2();
    case CpuLevel::portable:
      break;
  }
  return row_kernels_portable();
}

}  // namespace pagoda::cpu
