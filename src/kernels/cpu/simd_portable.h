#pragma once
// Sixteen lanes in plain arrays, for any CPU: loops that the compiler vectorises as the target allows.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/dequantize.h"
#include "tensor/small_floats.h"

#define PAGODA_INLINE static inline

namespace pagoda::cpu::simd {
namespace {

constexpr int kRowHeads = 2;
constexpr int score_groups(int) { return 1; }
constexpr int value_vectors(int) { return 1; }
constexpr bool kWidensFloats = false;  // attention_inl.h
constexpr int kStateVectors = 1;       // a row of a state in linear attention
constexpr int kInt8RowHeads = 2;
constexpr int int8_columns(int) { return 1; }

constexpr int kF32Rows = 2, kBf16Rows = 2, kInt8Rows = 2, kStreamInt8Rows = 2, kStreamNarrowRows = 2,
              kIntegerRows = 2, kStrips = 1;

struct F {
  float v[16];
};
struct I {
  std::int32_t v[16];
};
struct W {
  std::uint8_t v[64];
};

template <class Op>
inline F map(const Op& op) {
  F out;
  for (int i = 0; i < 16; ++i) out.v[i] = op(i);
  return out;
}

PAGODA_INLINE F zero() { return {}; }
PAGODA_INLINE F set1(float x) {
  return map([&](int) { return x; });
}
PAGODA_INLINE F load_n(const float* p, std::int64_t n) {
  return map([&](int i) { return i < n ? p[i] : 0.0f; });
}
PAGODA_INLINE F load(const float* p) {
  return map([&](int i) { return p[i]; });
}
PAGODA_INLINE void store_n(float* p, const F& x, std::int64_t n) {
  for (int i = 0; i < 16 && i < n; ++i) p[i] = x.v[i];
}
PAGODA_INLINE void store(float* p, const F& x) { std::memcpy(p, x.v, sizeof x.v); }
PAGODA_INLINE void store_past(float* p, const F& x) { store(p, x); }  // no benefit here
PAGODA_INLINE void fence() {}
PAGODA_INLINE F add(const F& a, const F& b) {
  return map([&](int i) { return a.v[i] + b.v[i]; });
}
PAGODA_INLINE F sub(const F& a, const F& b) {
  return map([&](int i) { return a.v[i] - b.v[i]; });
}
PAGODA_INLINE F mul(const F& a, const F& b) {
  return map([&](int i) { return a.v[i] * b.v[i]; });
}
PAGODA_INLINE F div(const F& a, const F& b) {
  return map([&](int i) { return a.v[i] / b.v[i]; });
}
PAGODA_INLINE F fma(const F& a, const F& b, const F& c) {
  return map([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
PAGODA_INLINE F max(const F& a, const F& b) {
  return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
PAGODA_INLINE F min(const F& a, const F& b) {
  return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
PAGODA_INLINE F abs(const F& x) {
  return map([&](int i) { return std::fabs(x.v[i]); });
}
PAGODA_INLINE F exponent_part(const F& x) {  // simd_avx512.h
  return map([&](int i) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.v[i]) & 0x7f800000u); });
}
PAGODA_INLINE F load_half(const void* p) {
  std::uint16_t bits[16];
  std::memcpy(bits, p, sizeof bits);
  return map([&](int i) { return half_to_float(bits[i]); });
}
PAGODA_INLINE F load_bf16(const void* p) {
  std::uint16_t bits[16];
  std::memcpy(bits, p, sizeof bits);
  return map([&](int i) { return bfloat16_to_float(bits[i]); });
}

// Lanes first <= i < last from x, the others from `other`.
PAGODA_INLINE F keep_range(const F& x, int first, int last, const F& other) {
  return map([&](int i) { return i >= first && i < last ? x.v[i] : other.v[i]; });
}
PAGODA_INLINE F sqrt(const F& x) {
  return map([&](int i) { return std::sqrt(x.v[i]); });
}

PAGODA_INLINE unsigned greater(const F& a, const F& b) {  // a bit per lane
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) mask |= static_cast<unsigned>(a.v[i] > b.v[i]) << i;
  return mask;
}

template <class Op>
inline I map_integers(const Op& op) {
  I out;
  for (int i = 0; i < 16; ++i) out.v[i] = op(i);
  return out;
}
PAGODA_INLINE I izero() { return {}; }
PAGODA_INLINE I add(const I& a, const I& b) {
  return map_integers([&](int i) { return a.v[i] + b.v[i]; });
}
PAGODA_INLINE I mul(const I& a, const I& b) {
  return map_integers([&](int i) { return a.v[i] * b.v[i]; });
}
PAGODA_INLINE I iset1(std::int32_t x) {
  return map_integers([&](int) { return x; });
}
// simd_avx512.h
PAGODA_INLINE I pack_pairs(const I& low, const I& high) {
  return map_integers([&](int i) { return (low.v[i] & 0xffff) | high.v[i] * (1 << 16); });
}
PAGODA_INLINE I dot_pairs(const I& acc, const I& a, const I& b) {
  const auto low = [](std::int32_t x) { return static_cast<std::int16_t>(x & 0xffff); };
  return map_integers(
      [&](int i) { return acc.v[i] + low(a.v[i]) * low(b.v[i]) + (a.v[i] >> 16) * (b.v[i] >> 16); });
}
PAGODA_INLINE I lower_halves(const I& x) {
  return map_integers([&](int i) { return static_cast<std::int16_t>(x.v[i] & 0xffff); });
}
PAGODA_INLINE I upper_halves(const I& x) {
  return map_integers([&](int i) { return x.v[i] >> 16; });
}
PAGODA_INLINE I load_integers(const std::byte* p) {
  I out;
  std::memcpy(out.v, p, sizeof out.v);
  return out;
}
PAGODA_INLINE void store_integers(std::byte* p, const I& x) { std::memcpy(p, x.v, sizeof x.v); }
constexpr bool kPairsSums = false;  // linear_blocks_inl.h
PAGODA_INLINE F to_float(const I& x) {
  return map([&](int i) { return static_cast<float>(x.v[i]); });
}
PAGODA_INLINE I to_int(const F& x) {  // 0 for NaN
  I out;
  for (int i = 0; i < 16; ++i)
    out.v[i] = std::isnan(x.v[i]) ? 0 : static_cast<std::int32_t>(std::nearbyint(x.v[i]));
  return out;
}

PAGODA_INLINE F pow2(const I& n) {  // n in -126..127
  return map([&](int i) { return std::bit_cast<float>(static_cast<std::uint32_t>(n.v[i] + 127) << 23); });
}

PAGODA_INLINE F round_even(const F& x) {
  return map([&](int i) { return std::nearbyint(x.v[i]); });
}
// simd_avx512.h.
PAGODA_INLINE F add_to_exponent(const F& x, const F& n) {
  return map([&](int i) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.v[i]) +
                                (std::bit_cast<std::uint32_t>(n.v[i]) << 23));
  });
}

PAGODA_INLINE W load_weights(const std::byte* p) {
  W out;
  std::memcpy(out.v, p, sizeof out.v);
  return out;
}
PAGODA_INLINE void store_weights(std::byte* p, const W& w) { std::memcpy(p, w.v, 64); }
// 4-bit weights: simd_avx512.h.
PAGODA_INLINE void widen_nibbles(const W& w, W& low, W& high) {
  for (int i = 0; i < 64; ++i) {
    low.v[i] = w.v[i] & 15;
    high.v[i] = static_cast<std::uint8_t>(w.v[i] >> 4);
  }
}
constexpr int kQuadParts = 1;
struct Quads {
  W part[kQuadParts];
};
using QuadInput = std::int8_t;
constexpr bool kUnrollQuads = true;
PAGODA_INLINE Quads load_quads(const std::byte* p) { return {{load_weights(p)}}; }
PAGODA_INLINE void widen_nibbles(const W& w, Quads& low, Quads& high) {
  widen_nibbles(w, low.part[0], high.part[0]);
}
template <class Op>
inline W map_bytes(const Op& op) {
  W out;
  for (int i = 0; i < 64; ++i) out.v[i] = static_cast<std::uint8_t>(op(i));
  return out;
}
PAGODA_INLINE W shift_right(const W& w, int bits) {
  return map_bytes([&](int i) { return w.v[i] >> bits; });
}
PAGODA_INLINE W shift_left(const W& w, int bits) {
  return map_bytes([&](int i) { return w.v[i] << bits; });
}
PAGODA_INLINE W bits_of(const W& w, int mask) {
  return map_bytes([&](int i) { return w.v[i] & mask; });
}
PAGODA_INLINE W either(const W& a, const W& b) {
  return map_bytes([&](int i) { return a.v[i] | b.v[i]; });
}
PAGODA_INLINE W add_bytes(const W& w, int x) {
  return map_bytes([&](int i) { return w.v[i] + x; });
}
PAGODA_INLINE W look_up(const std::uint8_t* table, const W& w) {
  return map_bytes([&](int i) { return table[w.v[i]]; });
}
PAGODA_INLINE Quads quads_of(const W& w) { return {{w}}; }
PAGODA_INLINE I load_int8(const std::byte* p) {
  return map_integers([&](int i) { return static_cast<std::int8_t>(p[i]); });
}
PAGODA_INLINE I load_low_nibbles(const std::byte* p) {
  return map_integers([&](int i) { return static_cast<int>(p[i]) & 15; });
}
PAGODA_INLINE I load_high_nibbles(const std::byte* p) {
  return map_integers([&](int i) { return static_cast<int>(p[i]) >> 4; });
}
PAGODA_INLINE I dot_part(const I& acc, const W& w, const QuadInput* q) {
  I out;
  for (int i = 0; i < 16; ++i) {
    out.v[i] =
        acc.v[i] + w.v[4 * i] * q[0] + w.v[4 * i + 1] * q[1] + w.v[4 * i + 2] * q[2] + w.v[4 * i + 3] * q[3];
  }
  return out;
}
// Signed weights: simd_avx512.h.
PAGODA_INLINE I first_sums(const std::byte*) { return izero(); }
PAGODA_INLINE Quads load_signed_quads(const std::byte* p) { return load_quads(p); }
PAGODA_INLINE I dot_signed_part(const I& acc, const W& w, const QuadInput* q) {
  I out = acc;
  for (int i = 0; i < 64; ++i) out.v[i / 4] += static_cast<std::int8_t>(w.v[i]) * q[i % 4];
  return out;
}
struct Pairs {
  F even, odd;
};
using PairInput = float;
PAGODA_INLINE Pairs load_pairs(const std::byte* p) {
  std::uint16_t bits[32];
  std::memcpy(bits, p, sizeof bits);
  return {map([&](int i) { return bfloat16_to_float(bits[2 * i]); }),
          map([&](int i) { return bfloat16_to_float(bits[2 * i + 1]); })};
}
PAGODA_INLINE F dot2(const F& acc, const Pairs& w, const PairInput* x) {
  return fma(set1(x[1]), w.odd, fma(set1(x[0]), w.even, acc));
}
PAGODA_INLINE void prefetch_far(const std::byte*) {}
PAGODA_INLINE void prefetch_write(const float*) {}

PAGODA_INLINE float reduce_add(const F& x) {
  float out = 0;
  for (const float lane : x.v) out += lane;
  return out;
}
PAGODA_INLINE float reduce_max(const F& x) {
  float out = x.v[0];
  for (const float lane : x.v) out = lane > out ? lane : out;
  return out;
}
PAGODA_INLINE std::int32_t reduce_add(const I& x) {
  std::int32_t out = 0;
  for (const std::int32_t lane : x.v) out += lane;
  return out;
}
PAGODA_INLINE void store_int8(std::int8_t* p, const I& x) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(x.v[i]);
}
PAGODA_INLINE void store_quads(QuadInput* p, const I& x) { store_int8(p, x); }
PAGODA_INLINE void store_signed_quads(QuadInput* p, const I& x) { store_quads(p, x); }
PAGODA_INLINE F round_to_bf16(const F& x) {
  return map([&](int i) { return bfloat16_to_float(float_to_bfloat16(x.v[i])); });
}
PAGODA_INLINE void store_pair_input(PairInput* p, const F& x) { store(p, round_to_bf16(x)); }

PAGODA_INLINE Pairs pairs_of(const F& even, const F& odd) {
  return {round_to_bf16(even), round_to_bf16(odd)};
}
PAGODA_INLINE void store_pairs(std::byte* p, const Pairs& w) {
  std::uint16_t bits[32];
  for (int i = 0; i < 16; ++i) {
    bits[2 * i] = float_to_bfloat16(w.even.v[i]);
    bits[2 * i + 1] = float_to_bfloat16(w.odd.v[i]);
  }
  std::memcpy(p, bits, sizeof bits);
}
PAGODA_INLINE F load_e4m3(const std::byte* p) {  // simd_avx512.h
  return map([&](int i) { return e4m3_value(static_cast<std::uint8_t>(p[i])) * 0x1p-8f; });
}
PAGODA_INLINE void load_e4m3_pairs(const std::byte* p, F& even, F& odd) {
  even = map([&](int i) { return e4m3_value(static_cast<std::uint8_t>(p[2 * i])) * 0x1p-8f; });
  odd = map([&](int i) { return e4m3_value(static_cast<std::uint8_t>(p[2 * i + 1])) * 0x1p-8f; });
}
PAGODA_INLINE F look_up_nibbles(const F& table, const W& w, int n) {
  return map([&](int i) { return table.v[w.v[4 * i + n / 2] >> (n % 2 * 4) & 15]; });
}

PAGODA_INLINE void store_half(std::uint16_t* p, const F& x) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_half(x.v[i]);
}
PAGODA_INLINE void store_bf16(std::uint16_t* p, const F& x) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_bfloat16(x.v[i]);
}

// Transposes sixteen vectors of sixteen words, as in simd_avx512.h.
PAGODA_INLINE void turn_words(const std::byte* from, std::byte* to, std::int64_t stride) {
  for (int v = 0; v < 16; ++v)
    for (int w = 0; w < 16; ++w) std::memcpy(to + w * stride + 4 * v, from + 64 * v + 4 * w, 4);
}
// Transposes eight vectors of sixteen 16-bit pairs, as in simd_avx512.h.
PAGODA_INLINE void turn_pairs(const std::byte* from, std::byte* to, std::int64_t stride) {
  for (int v = 0; v < 8; ++v)
    for (int w = 0; w < 16; ++w)
      for (int h = 0; h < 2; ++h)
        std::memcpy(to + w / 2 * stride + 8 * v + 4 * h + w % 2 * 2, from + 64 * v + 4 * w + 2 * h, 2);
}

}  // namespace
}  // namespace pagoda::cpu::simd

#include "kernels/cpu/simd_quarter_sums.h"
