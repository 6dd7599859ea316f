#include <immintrin.h>

#include "peak.h"
#include "peak_inl.h"

namespace pagoda::bench {
namespace {

float sum_of(__m256 x) {
  float all[8], sum = 0;
  _mm256_storeu_ps(all, x);
  for (const float one : all) sum += one;
  return sum;
}

}  // namespace

// bfloat16 is widened and multiplied as float32. 8 bits: two multiplications and an addition for 32 products.
Peak measure_peak_avx2() {
  Peak peak;
  volatile float sink = 0;
  volatile int seed = 1;
  peak.fma_gflops = best_rate(kChains * 16.0 * kLoops, [&] {
    __m256 acc[kChains];
    for (auto& a : acc) a = _mm256_set1_ps(1.0f);
    const __m256 x = _mm256_set1_ps(1e-9f * static_cast<float>(seed));
    for (int i = 0; i < kLoops; ++i) {
      for (auto& a : acc) a = _mm256_fmadd_ps(x, x, a);
      asm volatile("" ::: "memory");
    }
    for (auto& a : acc) sink = sink + sum_of(a);
  });
  peak.bf16_gflops = peak.fma_gflops;
  peak.int8_gops = best_rate(kChains * 64.0 * kLoops, [&] {
    __m256i acc[kChains];
    for (auto& a : acc) a = _mm256_setzero_si256();
    __m256i x = _mm256_set1_epi8(static_cast<char>(seed));
    const __m256i ones = _mm256_set1_epi16(static_cast<short>(seed));
    for (int i = 0; i < kLoops; ++i) {
      for (auto& a : acc) {
        asm volatile("" : "+x"(x));  // otherwise one product would serve all chains
        a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), ones));
      }
    }
    for (auto& a : acc) sink = sink + sum_of(_mm256_cvtepi32_ps(a));
  });
  return peak;
}

}  // namespace pagoda::bench
