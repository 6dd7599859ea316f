// Chooses the linear attention of a level.
#include "kernels/cpu/linear_attention.h"

namespace pagoda::cpu {

#if !defined(__x86_64__)
LinearAttentionRows linear_attention_rows_avx512() { return linear_attention_rows_portable(); }
LinearAttentionRows linear_attention_rows_avx2() { return linear_attention_rows_portable(); }
#endif

LinearAttentionRows linear_attention_rows(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return linear_attention_rows_avx512();
    case CpuLevel::avx2:
      return linear_attention_rows_avx2();
    case CpuLevel::portable:
      break;
  }
  return linear_attention_rows_portable();
}

}  // namespace pagoda::cpu
