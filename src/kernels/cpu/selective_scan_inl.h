// The selective scan over the sixteen lanes of simd_*.h: each lane is a channel. A row's time goes into the
// exponential of each number of the state, so the state stays in the first-level cache rather than in
// registers.
#include "kernels/cpu/lanes_inl.h"
#include "kernels/cpu/state_rows.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

// log(1 + e^x), with a relative error below 1e-6: max(x, 0) + log1p(u), where u = e^-|x|. log1p(u) is 2
// atanh(s), where s = u / (2 + u) is at most a third: the series up to s^13.
PAGODA_INLINE F softplus(F x) {
  const F u = exp(min(x, sub(zero(), x)));
  const F s = div(u, add(u, set1(2.0f)));
  const F square = mul(s, s);
  F p = set1(2.0f / 13);
  p = fma(p, square, set1(2.0f / 11));
  p = fma(p, square, set1(2.0f / 9));
  p = fma(p, square, set1(2.0f / 7));
  p = fma(p, square, set1(2.0f / 5));
  p = fma(p, square, set1(2.0f / 3));
  p = fma(p, square, set1(2.0f));
  return fma(p, s, max(x, zero()));
}

template <bool kPartial>
void scan(const SelectiveScanTile& tile, std::int32_t first, std::int32_t last) {
  const std::int64_t lanes = tile.channels;
  const F skip = get<kPartial>(tile.skip, lanes);
  for (std::int32_t row = first; row < last; ++row) {
    const F step = softplus(get<kPartial>(tile.step + row * tile.step_stride, lanes));
    const F value = get<kPartial>(tile.value + row * tile.value_stride, lanes);
    const F change = mul(step, value);
    const float* const key = tile.key + row * tile.key_stride;
    const float* const query = tile.query + row * tile.key_stride;
    const float* rate = tile.rate;
    float* state = tile.state;
    F sum = zero();
    for (std::int32_t n = 0; n < tile.state_size; ++n, rate += lanes, state += lanes) {
      const F decay = exp(mul(get<kPartial>(rate, lanes), step));
      const F h = fma(set1(key[n]), change, mul(decay, get<kPartial>(state, lanes)));
      put<kPartial>(state, h, lanes);
      sum = fma(set1(query[n]), h, sum);
    }
    put<kPartial>(tile.output + row * tile.output_stride, fma(skip, value, sum), lanes);
  }
}

void scan_rows(const SelectiveScanTile& tile, std::int32_t first, std::int32_t last) {
  tile.channels == 16 ? scan<false>(tile, first, last) : scan<true>(tile, first, last);
}

}  // namespace
}  // namespace pagoda::cpu
