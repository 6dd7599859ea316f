#include "peak.h"

#include <cstdint>
#include <cstring>

namespace pagoda::bench {

#if !defined(__x86_64__)
Peak measure_peak_avx512() { return {}; }
Peak measure_peak_avx2() { return {}; }
#endif

Peak measure_peak(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return measure_peak_avx512();
    case CpuLevel::avx2:
      return measure_peak_avx2();
    case CpuLevel::portable:
      break;
  }
  return {};
}

// Uses the narrowest registers that every such processor has, since memory is slower than any registers.
float read_all(const std::byte* data, std::size_t bytes) {
  using Vector = std::uint64_t __attribute__((vector_size(16)));
  Vector sum[4] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
    for (std::size_t j = 0; j < 16; ++j) {
      Vector part;
      std::memcpy(&part, data + i + 16 * j, sizeof part);
      sum[j % 4] ^= part;
    }
  }
  const Vector all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  return static_cast<float>(all[0] ^ all[1]);
}

}  // namespace pagoda::bench
