#pragma once
// Included by the simd_*.h files that have no faster way to sum numbers while storing them.

namespace pagoda::cpu::simd {
namespace {

// As in simd_avx512.h, except that magnitudes are unused here.
struct QuarterSums {
  std::int32_t sum[4], magnitude[4];
};
PAGODA_INLINE void store_quads(QuadInput* p, const I (&x)[4], QuarterSums& out) {
  for (int v = 0; v < 4; ++v) {
    store_quads(p + 16 * v, x[v]);
    out.sum[v] = reduce_add(x[v]);
    out.magnitude[v] = 0;
  }
}

}  // namespace
}  // namespace pagoda::cpu::simd
