// Linear attention for CpuLevel::avx2.
#if defined(__x86_64__)
#include "kernels/cpu/simd_avx2.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/linear_attention_inl.h"

namespace pagoda::cpu {
LinearAttentionRows linear_attention_rows_avx2() { return rows_of_tile; }
}  // namespace pagoda::cpu
#endif
