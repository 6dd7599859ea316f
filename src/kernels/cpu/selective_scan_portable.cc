// The selective scan for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/selective_scan_inl.h"

namespace pagoda::cpu {
SelectiveScanRows selective_scan_rows_portable() { return scan_rows; }
}  // namespace pagoda::cpu
