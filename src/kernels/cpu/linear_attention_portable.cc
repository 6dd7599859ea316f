// Linear attention for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// The lanes come first: the loops are written in their terms.
#include "kernels/cpu/linear_attention_inl.h"

namespace pagoda::cpu {
LinearAttentionRows linear_attention_rows_portable() { return rows_of_tile; }
}  // namespace pagoda::cpu
