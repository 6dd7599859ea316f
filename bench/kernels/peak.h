#pragma once
// The most that one thread of this machine can do at an instruction level: the denominators of the kernels'
// bench.
#include <cstddef>

#include "kernels/backend.h"

namespace pagoda::bench {

// Without instructions for bfloat16 or 8 bits, what the level multiplies such numbers with instead. 0: not
// measured.
struct Peak {
  double fma_gflops = 0, bf16_gflops = 0, int8_gops = 0;
};
Peak measure_peak(CpuLevel level);
Peak measure_peak_avx512();
Peak measure_peak_avx2();

// Reads `bytes` bytes in order, four lines at a time; the caller times it. Whole 256 bytes only.
float read_all(const std::byte* data, std::size_t bytes);

}  // namespace pagoda::bench
