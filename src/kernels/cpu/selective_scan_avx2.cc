// The selective scan for CpuLevel::avx2.
#if defined(__x86_64__)
#include "kernels/cpu/simd_avx2.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/selective_scan_inl.h"

namespace pagoda::cpu {
SelectiveScanRows selective_scan_rows_avx2() { return scan_rows; }
}  // namespace pagoda::cpu
#endif
