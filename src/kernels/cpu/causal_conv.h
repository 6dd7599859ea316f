#pragma once
// The causal convolution of one instruction set: channels [begin, end) of one sequence. Contract as in
// kernels/causal_conv.h.
#include "kernels/causal_conv.h"

namespace pagoda::cpu {

using CausalConv = void (*)(const CausalConvArgs& args, const StateSequence& sequence, std::int64_t begin,
                            std::int64_t end);

CausalConv causal_conv_avx512();
CausalConv causal_conv_avx2();
CausalConv causal_conv_portable();
CausalConv causal_conv_of(CpuLevel level);

}  // namespace pagoda::cpu
