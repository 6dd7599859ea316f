// Chooses the selective scan of a level.
#include "kernels/cpu/selective_scan.h"

namespace pagoda::cpu {

#if !defined(__x86_64__)
SelectiveScanRows selective_scan_rows_avx512() { return selective_scan_rows_portable(); }
SelectiveScanRows selective_scan_rows_avx2() { return selective_scan_rows_portable(); }
#endif

SelectiveScanRows selective_scan_rows(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return selective_scan_rows_avx512();
    case CpuLevel::avx2:
      return selective_scan_rows_avx2();
    case CpuLevel::portable:
      break;
  }
  return selective_scan_rows_portable();
}

}  // namespace pagoda::cpu
