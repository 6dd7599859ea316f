#include "kernels/backend.h"

namespace pagoda {

CpuLevel detected_cpu_level() {
#if defined(__x86_64__)
  static const CpuLevel level = [] {
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
    if (avx2 && avx512) return CpuLevel::avx512;
    return avx2 ? CpuLevel::avx2 : CpuLevel::portable;
  }();
  return level;
#else
  return CpuLevel::portable;
#endif
}

std::string_view cpu_level_name(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return "avx512";
    case CpuLevel::avx2:
      return "avx2";
    case CpuLevel::portable:
      break;
  }
  return "portable";
}

}  // namespace pagoda
