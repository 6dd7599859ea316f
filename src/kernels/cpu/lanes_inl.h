#pragma once
// Loading and storing the ends of rows, and exponentials, shared by all loops over the sixteen lanes of
// simd_*.h.
namespace pagoda::cpu {
namespace {

// Sixteen floats, or the first `lanes` of them.
template <bool kPartial>
PAGODA_INLINE simd::F get(const float* p, std::int64_t lanes) {
  return kPartial ? simd::load_n(p, lanes) : simd::load(p);
}
template <bool kPartial>
PAGODA_INLINE void put(float* p, simd::F x, std::int64_t lanes) {
  kPartial ? simd::store_n(p, x, lanes) : simd::store(p, x);
}
PAGODA_INLINE simd::F get(const float* p, std::int64_t lanes) {
  return lanes == 16 ? simd::load(p) : simd::load_n(p, lanes);
}
PAGODA_INLINE void put(float* p, simd::F x, std::int64_t lanes) {
  lanes == 16 ? simd::store(p, x) : simd::store_n(p, x, lanes);
}

// Every element goes through the same operations, so its bits depend only on its own input. Source: Cephes
// expf (range reduction by ln 2 in two parts, polynomial of degree 6). Relative error below 2e-7 for x in
// -87..88; inputs outside are clamped, giving the smallest normal numbers or the largest.
PAGODA_INLINE simd::F exp(simd::F x) {
  using namespace simd;  // NOLINT
  x = min(max(x, set1(-87.3f)), set1(88.0f));
  const I n = to_int(mul(x, set1(1.44269504088896341f)));
  const F nf = to_float(n);
  F r = fma(nf, set1(-0.693359375f), x);
  r = fma(nf, set1(2.12194440e-4f), r);
  F p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = add(fma(p, mul(r, r), r), set1(1.0f));
  return mul(p, pow2(n));
}

// 2^x for x at most 0, or barely above: relative error below 2e-7; below -126 the result is 2^-126. Used for
// the exponentials of attention, which fold the change of base into a factor that they need anyway. Source:
// minimax polynomial of degree 5 over [-1/2, 1/2] with 2^0 = 1. Adding kWhole rounds to a whole number, which
// is then in the sum's last bits.
PAGODA_INLINE simd::F exp2(simd::F x) {
  using namespace simd;  // NOLINT
  constexpr float kWhole = 0x1.8p23f;
  x = max(set1(-126.0f), x);
  const F whole = add(x, set1(kWhole));
  const F r = sub(x, sub(whole, set1(kWhole)));
  F p = set1(1.326472731e-3f);
  p = fma(p, r, set1(9.671512991e-3f));
  p = fma(p, r, set1(5.550733581e-2f));
  p = fma(p, r, set1(2.402224243e-1f));
  p = fma(p, r, set1(6.931470037e-1f));
  return add_to_exponent(fma(p, r, set1(1.0f)), whole);
}

// y / (1 + exp(-x)).
PAGODA_INLINE simd::F times_sigmoid(simd::F y, simd::F x) {
  using namespace simd;  // NOLINT
  return div(y, add(set1(1.0f), exp(sub(zero(), x))));
}

}  // namespace
}  // namespace pagoda::cpu
