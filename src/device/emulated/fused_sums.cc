#include "device/emulated/fused_sums.h"

#include <cmath>
#include <cstddef>

namespace pagoda::device::emulated {
namespace {

#if defined(__x86_64__)
// Calling the C library's function for each product takes several times as long.
__attribute__((target("fma"))) float add_by_instruction(float sum, std::span<const float> a,
                                                        std::span<const float> b) {
  for (std::size_t i = 0; i < a.size(); ++i) sum = __builtin_fmaf(a[i], b[i], sum);
  return sum;
}
#endif

}  // namespace

float add_products(float sum, std::span<const float> a, std::span<const float> b) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("fma") != 0;
  if (has_instruction) return add_by_instruction(sum, a, b);
#endif
  for (std::size_t i = 0; i < a.size(); ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}

}  // namespace pagoda::device::emulated
