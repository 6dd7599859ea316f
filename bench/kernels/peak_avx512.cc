#include <immintrin.h>

#include "peak.h"
#include "peak_inl.h"

namespace pagoda::bench {

Peak measure_peak_avx512() {
  Peak peak;
  volatile float sink = 0;
  volatile int seed = 1;
  peak.fma_gflops = best_rate(kChains * 32.0 * kLoops, [&] {
    __m512 acc[kChains];
    for (auto& a : acc) a = _mm512_set1_ps(1.0f);
    const __m512 x = _mm512_set1_ps(1e-9f * static_cast<float>(seed));
    for (int i = 0; i < kLoops; ++i) {
      for (auto& a : acc) a = _mm512_fmadd_ps(x, x, a);
      asm volatile("" ::: "memory");
    }
    for (auto& a : acc) sink = sink + _mm512_reduce_add_ps(a);
  });
  peak.bf16_gflops = best_rate(kChains * 64.0 * kLoops, [&] {
    __m512 acc[kChains];
    for (auto& a : acc) a = _mm512_set1_ps(1.0f);
    const __m512bh x = (__m512bh)_mm512_set1_epi32(seed);
    for (int i = 0; i < kLoops; ++i) {
      for (auto& a : acc) a = _mm512_dpbf16_ps(a, x, x);
      asm volatile("" ::: "memory");
    }
    for (auto& a : acc) sink = sink + _mm512_reduce_add_ps(a);
  });
  peak.int8_gops = best_rate(kChains * 128.0 * kLoops, [&] {
    __m512i acc[kChains];
    for (auto& a : acc) a = _mm512_setzero_si512();
    const __m512i x = _mm512_set1_epi8(static_cast<char>(seed));
    for (int i = 0; i < kLoops; ++i) {
      for (auto& a : acc) a = _mm512_dpbusd_epi32(a, x, x);
      asm volatile("" ::: "memory");
    }
    for (auto& a : acc) sink = sink + static_cast<float>(_mm512_reduce_add_epi32(a));
  });
  return peak;
}

}  // namespace pagoda::bench
