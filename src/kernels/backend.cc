#include "kernels/backend.h"

#include "kernels/cpu/level.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstring>
#endif

namespace pagoda {

namespace {

// Features of the processor, regardless of the kernels in this build.
bool runs_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}
bool runs_avx512() {
#if defined(__x86_64__)
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
#else
  return false;
#endif
}

}  // namespace

bool cpu_level_usable(CpuLevel level) {
  static const bool avx2 = cpu::kHasAvx2 && runs_avx2(), avx512 = cpu::kHasAvx512 && runs_avx512();
  switch (level) {
    case CpuLevel::avx512:
      return avx512;
    case CpuLevel::avx2:
      return avx2;
    case CpuLevel::portable:
      break;
  }
  return cpu::kHasPortable;
}

CpuLevel detected_cpu_level() {
  for (const CpuLevel level : {CpuLevel::avx512, CpuLevel::avx2})
    if (cpu_level_usable(level)) return level;
  return CpuLevel::portable;
}

std::optional<CpuLevel> missing_cpu_level() {
  const CpuLevel runs = runs_avx512() ? CpuLevel::avx512 : runs_avx2() ? CpuLevel::avx2 : CpuLevel::portable;
  return runs > detected_cpu_level() ? std::optional(runs) : std::nullopt;
}

CpuTuning detected_cpu_tuning() {
#if defined(__x86_64__)
  static const CpuTuning tuning = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return CpuTuning::common;
    const unsigned vendor[3] = {ebx, edx, ecx};
    if (std::memcmp(vendor, "GenuineIntel", 12) == 0) return CpuTuning::intel;
    if (std::memcmp(vendor, "AuthenticAMD", 12) != 0 || __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0)
      return CpuTuning::common;
    const unsigned family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
    if (family >= 0x1a) return CpuTuning::zen5;
    return family >= 0x17 && runs_avx2() && !runs_avx512() ? CpuTuning::zen3 : CpuTuning::common;
  }();
  return tuning;
#else
  return CpuTuning::common;
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

std::optional<CpuLevel> cpu_level_named(std::string_view name) {
  for (const CpuLevel level : {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512})
    if (name == cpu_level_name(level)) return level;
  return std::nullopt;
}

}  // namespace pagoda
