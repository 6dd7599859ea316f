// Chooses the causal convolution of a level.
#include "kernels/cpu/causal_conv.h"

namespace pagoda::cpu {

#if !defined(__x86_64__)
CausalConv causal_conv_avx512() { return causal_conv_portable(); }
CausalConv causal_conv_avx2() { return causal_conv_portable(); }
#endif

CausalConv causal_conv_of(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return causal_conv_avx512();
    case CpuLevel::avx2:
      return causal_conv_avx2();
    case CpuLevel::portable:
      break;
  }
  return causal_conv_portable();
}

}  // namespace pagoda::cpu
