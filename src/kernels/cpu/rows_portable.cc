// Row-wise ops, ops on recurrent states, and adapters' products, for CpuLevel::portable.
#include "kernels/cpu/simd_portable.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/low_rank_inl.h"
#include "kernels/cpu/rows_inl.h"
#include "kernels/cpu/state_rows_inl.h"

namespace pagoda::cpu {
const LowRankKernels LowRankKernels::portable = kLowRankKernels;
const RowKernels RowKernels::portable = kRowKernels;
const StateKernels StateKernels::portable = kStateKernels;
}  // namespace pagoda::cpu
