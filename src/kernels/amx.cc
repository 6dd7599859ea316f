#include "kernels/amx.h"

#include "kernels/cpu/level.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#endif

namespace pagoda {

bool amx_allowed() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool allowed = [] {
    if (!cpu::kHasAmx) return false;
    const char* const wanted = std::getenv("PAGODA_AMX");
    if (wanted != nullptr && std::string_view(wanted) == "0") return false;
    constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTiles | kInt8;
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    if ((edx & kAll) != kAll) return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return allowed;
#else
  return false;
#endif
}

std::string cpu_kernels_name(CpuLevel level) {
  const std::string name(cpu_level_name(level));
  return level == CpuLevel::avx512 && amx_allowed() ? name + " with AMX" : name;
}

}  // namespace pagoda
