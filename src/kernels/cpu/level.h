#pragma once
// The kernels of this processor: a struct of kernels has a constant for each instruction set that they are
// compiled for (simd_*.h). Not for files compiled for one of them.
#include "kernels/amx.h"
#include "kernels/backend.h"

namespace pagoda::cpu {

template <class Kernels>
const Kernels& kernels_of(CpuLevel level) {
#if defined(__x86_64__)
  if (level == CpuLevel::avx512) {
    if constexpr (requires { Kernels::amx(); })
      if (amx_allowed()) return Kernels::amx();
    return Kernels::avx512;
  }
  if (level == CpuLevel::avx2) return Kernels::avx2;
#endif
  return Kernels::portable;
}

}  // namespace pagoda::cpu
