#pragma once
// What one thread of this machine can do at most: the denominators of the kernels' bench.
#include <cstddef>

namespace pagoda::bench {

struct Peak {
  double fma_gflops = 0, bf16_gflops = 0, int8_gops = 0;  // 0: the CPU has no such instruction
};
Peak measure_peak();

// Sum of `bytes` bytes read in order; the caller times it.
float read_all(const std::byte* data, std::size_t bytes);

}  // namespace pagoda::bench
