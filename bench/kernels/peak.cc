#include "peak.h"

#include <immintrin.h>

#include <chrono>

#include "kernels/backend.h"

namespace pagoda::bench {
namespace {

template <class Body>
double best_rate(double operations, const Body& body) {
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = operations / time.count() * 1e-9 > best ? operations / time.count() * 1e-9 : best;
  }
  return best;
}

constexpr int kLoops = 400000;

}  // namespace

Peak measure_peak() {
  Peak peak;
  if (detected_cpu_level() != CpuLevel::avx512) return peak;
  volatile float sink = 0;
  volatile int seed = 1;
  // Twelve independent chains cover the latency; the operands are opaque to the compiler.
  peak.fma_gflops = best_rate(12.0 * kLoops * 32, [&] {
    __m512 acc[12];
    for (auto& a : acc) a = _mm512_set1_ps(1.0f);
    const __m512 x = _mm512_set1_ps(1e-9f * static_cast<float>(seed));
    for (int i = 0; i < kLoops; ++i) {
      for (auto& a : acc) a = _mm512_fmadd_ps(x, x, a);
      asm volatile("" ::: "memory");
    }
    for (auto& a : acc) sink = sink + _mm512_reduce_add_ps(a);
  });
  peak.bf16_gflops = best_rate(12.0 * kLoops * 64, [&] {
    __m512 acc[12];
    for (auto& a : acc) a = _mm512_set1_ps(1.0f);
    const __m512bh x = (__m512bh)_mm512_set1_epi32(seed);
    for (int i = 0; i < kLoops; ++i) {
      for (auto& a : acc) a = _mm512_dpbf16_ps(a, x, x);
      asm volatile("" ::: "memory");
    }
    for (auto& a : acc) sink = sink + _mm512_reduce_add_ps(a);
  });
  peak.int8_gops = best_rate(12.0 * kLoops * 128, [&] {
    __m512i acc[12];
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

float read_all(const std::byte* data, std::size_t bytes) {
  __m512i sum[4] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
    for (std::size_t j = 0; j < 4; ++j)
      sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(data + i + 64 * j));
  }
  return static_cast<float>(_mm512_reduce_add_epi32(
      _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]))));
}

}  // namespace pagoda::bench
