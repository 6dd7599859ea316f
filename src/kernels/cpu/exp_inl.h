// exp over sixteen lanes: the same operations on every element, so its bits depend on its input alone.
// Source: Cephes expf (range reduction by ln 2 in two parts, polynomial of degree 6).
namespace pagoda::cpu {
namespace {

// Relative error below 2e-7 for x in -87..88; below that the smallest normal numbers, above it the largest.
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

}  // namespace
}  // namespace pagoda::cpu
