// Row-wise ops, ops on recurrent states, and adapters' products, for CpuLevel::avx2.
#include "kernels/cpu/simd_avx2.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/low_rank_inl.h"
#include "kernels/cpu/rows_inl.h"
#include "kernels/cpu/state_rows_inl.h"

namespace pagoda::cpu {
const LowRankKernels LowRankKernels::avx2 = kLowRankKernels;
const RowKernels RowKernels::avx2 = kRowKernels;
const StateKernels StateKernels::avx2 = kStateKernels;
}  // namespace pagoda::cpu
