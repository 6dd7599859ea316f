#pragma once
// Operations on 8-bit numbers shared by linear and attention, over the sixteen lanes of simd_*.h.
#include "kernels/cpu/unroll.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is part of one translation unit

// One part of a quad of inputs.
constexpr int kPartInputs = 4 / kQuadParts;

// The largest absolute value of n floats.
PAGODA_INLINE float largest(const float* x, std::int64_t n) {
  F top = zero();
  for (std::int64_t i = 0; i < n; i += 16)
    top = max(top, abs(n - i >= 16 ? load(x + i) : load_n(x + i, n - i)));
  return reduce_max(top);
}

// round(x * inverse) + 128, half to even; writes up to the next multiple of 16.
PAGODA_INLINE void to_bytes(const float* x, std::int64_t n, float inverse, std::uint8_t* out) {
  const F factor = set1(inverse);
  for (std::int64_t i = 0; i < n; i += 16) {
    store_int8(reinterpret_cast<std::int8_t*>(out) + i,
               to_int(mul(n - i >= 16 ? load(x + i) : load_n(x + i, n - i), factor)));
    for (int j = 0; j < 16; ++j) out[i + j] ^= 128;
  }
}

}  // namespace
}  // namespace pagoda::cpu
