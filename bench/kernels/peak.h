#pragma once
// The peak rates of one thread of this machine at an instruction level: the reference values of the kernels
// bench.
#include <cstddef>

#include "kernels/backend.h"

namespace pagoda::bench {

// If a level has no instructions for bfloat16 or 8 bits, the rate of the instructions used instead. 0: not
// measured.
struct Peak {
  double fma_gflops = 0, bf16_gflops = 0, int8_gops = 0;
};
Peak measure_peak(CpuLevel level);
Peak measure_peak_avx512();
Peak measure_peak_avx2();

// Reads `bytes` bytes in order, four lines at a time; the caller measures the time. `bytes` must be a
// multiple of 256.
float read_all(const std::byte* data, std::size_t bytes);

}  // namespace pagoda::bench
