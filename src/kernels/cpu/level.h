#pragma once
// Selects the kernels for this processor: a struct of kernels has one constant per instruction set that it is
// compiled for (simd_*.h). flags.cmake lists the instruction sets; a build for one machine (PAGODA_NATIVE)
// has only those of its processor. Do not include from files compiled for a specific instruction set.
#include "base/check.h"
#include "kernels/amx.h"
#include "kernels/backend.h"

namespace pagoda::cpu {

#if defined(PAGODA_HAS_PORTABLE)
inline constexpr bool kHasPortable = true;
#else
inline constexpr bool kHasPortable = false;
#endif
#if defined(PAGODA_HAS_AVX2)
inline constexpr bool kHasAvx2 = true;
#else
inline constexpr bool kHasAvx2 = false;
#endif
#if defined(PAGODA_HAS_AVX512)
inline constexpr bool kHasAvx512 = true;
#else
inline constexpr bool kHasAvx512 = false;
#endif
#if defined(PAGODA_HAS_AMX)
inline constexpr bool kHasAmx = true;
#else
inline constexpr bool kHasAmx = false;
#endif

// The kernels of a usable level (kernels/backend.h).
template <class Kernels>
const Kernels& kernels_of(CpuLevel level) {
  if constexpr (kHasAmx && requires { Kernels::amx(); })
    if (level == CpuLevel::avx512 && amx_allowed()) return Kernels::amx();
  if constexpr (kHasAvx512)
    if (level == CpuLevel::avx512) return Kernels::avx512;
  if constexpr (kHasAvx2)
    if (level == CpuLevel::avx2) return Kernels::avx2;
  CHECK(kHasPortable);
  if constexpr (kHasPortable) return Kernels::portable;
}

}  // namespace pagoda::cpu
