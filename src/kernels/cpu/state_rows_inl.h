// The ops on recurrent states over the sixteen lanes of simd_*.h.
#include "kernels/cpu/causal_conv_inl.h"
#include "kernels/cpu/linear_attention_inl.h"
#include "kernels/cpu/selective_scan_inl.h"

namespace pagoda::cpu {
namespace {

constexpr StateKernels kStateKernels = {
    .causal_conv = causal_conv, .linear_attention = rows_of_tile, .selective_scan = scan_rows};

}  // namespace
}  // namespace pagoda::cpu
