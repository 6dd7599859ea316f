#pragma once
// Sixteen lanes in two AVX2 registers. Included only by files compiled for AVX2, FMA and F16C.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/unroll.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::cpu::simd {
namespace {

constexpr int kRowHeads = 4;
constexpr int score_groups(int row_heads) { return row_heads <= 2 ? 2 : 1; }
constexpr int value_vectors(int row_heads) { return row_heads <= 2 ? 2 : 1; }
constexpr bool kWidensFloats = false;  // attention_inl.h
constexpr int kStateVectors = 1;       // a row of a state in linear attention
constexpr int kInt8RowHeads = 6;
constexpr int int8_columns(int row_heads) { return row_heads <= 3 ? 2 : 1; }

#ifdef PAGODA_SMALL_TILES
constexpr int kF32Rows = 3, kBf16Rows = 3, kInt8Rows = 2, kStreamInt8Rows = 2, kStreamNarrowRows = 2,
              kIntegerRows = 2, kStrips = 1;
#else
constexpr int kF32Rows = 6, kBf16Rows = 4, kInt8Rows = 5, kStreamInt8Rows = 5, kStreamNarrowRows = 3,
              kIntegerRows = 5, kStrips = 1;
#endif

struct F {
  __m256 lo, hi;
};
struct I {
  __m256i lo, hi;
};
using W = I;

PAGODA_INLINE F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
PAGODA_INLINE F set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
PAGODA_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
PAGODA_INLINE void store(float* p, F x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
PAGODA_INLINE F load_n(const float* p, std::int64_t n) {
  alignas(32) float all[16] = {};
  for (std::int64_t i = 0; i < n && i < 16; ++i) all[i] = p[i];
  return load(all);
}
// Stores a whole line, bypassing the caches; p is aligned to it. Visible to other threads after fence().
PAGODA_INLINE void store_past(float* p, F x) {
  _mm256_stream_ps(p, x.lo);
  _mm256_stream_ps(p + 8, x.hi);
}
PAGODA_INLINE void fence() { _mm_sfence(); }
PAGODA_INLINE void store_n(float* p, F x, std::int64_t n) {
  alignas(32) float all[16];
  store(all, x);
  for (std::int64_t i = 0; i < n && i < 16; ++i) p[i] = all[i];
}
PAGODA_INLINE F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
PAGODA_INLINE F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
PAGODA_INLINE F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
PAGODA_INLINE F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
PAGODA_INLINE F fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
PAGODA_INLINE F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
PAGODA_INLINE F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
PAGODA_INLINE F load_half(const void* p) {
  const auto* half = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}
PAGODA_INLINE F load_bf16(const void* p) {
  const auto* bits = static_cast<const __m128i*>(p);
  const auto half = [](__m128i part) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(part), 16));
  };
  return {half(_mm_loadu_si128(bits)), half(_mm_loadu_si128(bits + 1))};
}

// Lanes first <= i < last from x, the others from `other`.
PAGODA_INLINE F keep_range(F x, int first, int last, F other) {
  alignas(32) float a[16], b[16];
  store(a, x);
  store(b, other);
  for (int i = 0; i < 16; ++i) a[i] = i >= first && i < last ? a[i] : b[i];
  return load(a);
}
PAGODA_INLINE F sqrt(F x) { return {_mm256_sqrt_ps(x.lo), _mm256_sqrt_ps(x.hi)}; }

PAGODA_INLINE unsigned greater(F a, F b) {  // a bit per lane
  const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ));
  const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ));
  return static_cast<unsigned>(lo | hi << 8);
}

PAGODA_INLINE I izero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
PAGODA_INLINE I add(I a, I b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
PAGODA_INLINE I mul(I a, I b) { return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)}; }
// simd_avx512.h
PAGODA_INLINE I pack_pairs(I low, I high) {
  return {_mm256_blend_epi16(low.lo, _mm256_slli_epi32(high.lo, 16), 0xaa),
          _mm256_blend_epi16(low.hi, _mm256_slli_epi32(high.hi, 16), 0xaa)};
}
PAGODA_INLINE I dot_pairs(I acc, I a, I b) {
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(a.lo, b.lo)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(a.hi, b.hi))};
}
PAGODA_INLINE I lower_halves(I x) {
  return {_mm256_srai_epi32(_mm256_slli_epi32(x.lo, 16), 16),
          _mm256_srai_epi32(_mm256_slli_epi32(x.hi, 16), 16)};
}
PAGODA_INLINE I upper_halves(I x) { return {_mm256_srai_epi32(x.lo, 16), _mm256_srai_epi32(x.hi, 16)}; }
constexpr bool kPairsSums = false;  // linear_blocks_inl.h
PAGODA_INLINE I iset1(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
PAGODA_INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
PAGODA_INLINE I to_int(F x) { return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)}; }

PAGODA_INLINE W load_weights(const std::byte* p) {
  const auto* w = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(w), _mm256_loadu_si256(w + 1)};
}
PAGODA_INLINE void store_weights(std::byte* p, W w) {
  auto* out = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(out, w.lo);
  _mm256_storeu_si256(out + 1, w.hi);
}
// 4-bit weights: simd_avx512.h.
PAGODA_INLINE void widen_nibbles(W w, W& low, W& high) {
  const __m256i mask = _mm256_set1_epi8(15);
  low = {_mm256_and_si256(w.lo, mask), _mm256_and_si256(w.hi, mask)};
  high = {_mm256_and_si256(_mm256_srli_epi16(w.lo, 4), mask),
          _mm256_and_si256(_mm256_srli_epi16(w.hi, 4), mask)};
}
PAGODA_INLINE I dot2(I acc, W w, __m256i x) {
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(w.lo, x)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(w.hi, x))};
}
PAGODA_INLINE I dot2(I acc, W w, const std::int16_t* x) {
  std::int32_t pair;
  std::memcpy(&pair, x, 4);
  return dot2(acc, w, _mm256_set1_epi32(pair));
}

// 8-bit products (maddubs) are summed in 16 bits and saturate, unless weights are absolute values and the
// other operand takes their signs, by an instruction that competes with the multipliers. So numbers are
// multiplied in 16 bits: bytes 0 and 2 of a quad, then 1 and 3, with the other operand in the same order.
constexpr int kQuadParts = 2;
struct Quads {
  W part[kQuadParts];
};
using QuadInput = std::int16_t;
PAGODA_INLINE I load_integers(const std::byte* p) { return load_weights(p); }
PAGODA_INLINE void store_integers(std::byte* p, I x) { store_weights(p, x); }
constexpr bool kUnrollQuads =
    false;  // with a group's steps unrolled, clang keeps more values than there are registers for
PAGODA_INLINE Quads quads_of(W w) {
  const __m256i low_byte = _mm256_set1_epi16(0x00ff);
  return {{{_mm256_and_si256(w.lo, low_byte), _mm256_and_si256(w.hi, low_byte)},
           {_mm256_srli_epi16(w.lo, 8), _mm256_srli_epi16(w.hi, 8)}}};
}
PAGODA_INLINE Quads load_quads(const std::byte* p) { return quads_of(load_weights(p)); }
PAGODA_INLINE I dot_part(I acc, W w, const QuadInput* x) { return dot2(acc, w, x); }
// Signed weights: simd_avx512.h. Here both operands are signed.
PAGODA_INLINE I first_sums(const std::byte*) { return izero(); }
PAGODA_INLINE Quads load_signed_quads(const std::byte* p) {
  const W w = load_weights(p);
  return {
      {{_mm256_srai_epi16(_mm256_slli_epi16(w.lo, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(w.hi, 8), 8)},
       {_mm256_srai_epi16(w.lo, 8), _mm256_srai_epi16(w.hi, 8)}}};
}
PAGODA_INLINE I dot_signed_part(I acc, W w, const QuadInput* x) { return dot_part(acc, w, x); }
PAGODA_INLINE void widen_nibbles(W w, Quads& low, Quads& high) {
  const __m256i mask = _mm256_set1_epi16(15);
  low = {{{_mm256_and_si256(w.lo, mask), _mm256_and_si256(w.hi, mask)},
          {_mm256_and_si256(_mm256_srli_epi16(w.lo, 8), mask),
           _mm256_and_si256(_mm256_srli_epi16(w.hi, 8), mask)}}};
  high = {{{_mm256_and_si256(_mm256_srli_epi16(w.lo, 4), mask),
            _mm256_and_si256(_mm256_srli_epi16(w.hi, 4), mask)},
           {_mm256_srli_epi16(w.lo, 12), _mm256_srli_epi16(w.hi, 12)}}};
}

PAGODA_INLINE W shift_right(W w, int bits) {  // bits of bytes: simd_avx512.h
  return {_mm256_srli_epi16(w.lo, bits), _mm256_srli_epi16(w.hi, bits)};
}
PAGODA_INLINE W shift_left(W w, int bits) {
  return {_mm256_slli_epi16(w.lo, bits), _mm256_slli_epi16(w.hi, bits)};
}
PAGODA_INLINE W bits_of(W w, int mask) {
  const __m256i wanted = _mm256_set1_epi8(static_cast<char>(mask));
  return {_mm256_and_si256(w.lo, wanted), _mm256_and_si256(w.hi, wanted)};
}
PAGODA_INLINE W either(W a, W b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
PAGODA_INLINE W add_bytes(W w, int x) {
  const __m256i every = _mm256_set1_epi8(static_cast<char>(x));
  return {_mm256_add_epi8(w.lo, every), _mm256_add_epi8(w.hi, every)};
}
PAGODA_INLINE W look_up(const std::uint8_t* table, W w) {
  const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(bytes, w.lo), _mm256_shuffle_epi8(bytes, w.hi)};
}
PAGODA_INLINE I load_int8(const std::byte* p) {
  const auto half = [&](int at) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + at)));
  };
  return {half(0), half(8)};
}
PAGODA_INLINE I load_uint8(const std::byte* p) {
  const auto half = [&](int at) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + at)));
  };
  return {half(0), half(8)};
}
PAGODA_INLINE I load_low_nibbles(const std::byte* p) {
  const I bytes = load_uint8(p);
  const __m256i mask = _mm256_set1_epi32(15);
  return {_mm256_and_si256(bytes.lo, mask), _mm256_and_si256(bytes.hi, mask)};
}
PAGODA_INLINE I load_high_nibbles(const std::byte* p) {
  const I bytes = load_uint8(p);
  return {_mm256_srli_epi32(bytes.lo, 4), _mm256_srli_epi32(bytes.hi, 4)};
}

PAGODA_INLINE __m256 pow2_half(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
PAGODA_INLINE F pow2(I n) { return {pow2_half(n.lo), pow2_half(n.hi)}; }  // n in -126..127
PAGODA_INLINE F round_even(F x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.lo, kMode), _mm256_round_ps(x.hi, kMode)};
}
// simd_avx512.h.
PAGODA_INLINE F add_to_exponent(F x, F n) {
  const auto half = [](__m256 part, __m256 whole) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(part), _mm256_slli_epi32(_mm256_castps_si256(whole), 23)));
  };
  return {half(x.lo, n.lo), half(x.hi, n.hi)};
}

// bf16 pairs are widened; the other operand is a float rounded to bf16.
struct Pairs {
  F even, odd;
};
using PairInput = float;
PAGODA_INLINE Pairs load_pairs(const std::byte* p) {
  const W w = load_weights(p);
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {
      {_mm256_castsi256_ps(_mm256_slli_epi32(w.lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(w.hi, 16))},
      {_mm256_castsi256_ps(_mm256_and_si256(w.lo, mask)), _mm256_castsi256_ps(_mm256_and_si256(w.hi, mask))}};
}
PAGODA_INLINE F dot2(F acc, const Pairs& w, const PairInput* x) {
  return fma(set1(x[1]), w.odd, fma(set1(x[0]), w.even, acc));
}
PAGODA_INLINE F e4m3_of_upper(__m256i bytes) {  // simd_avx512.h
  const __m256i half =
      _mm256_and_si256(_mm256_srai_epi16(bytes, 1), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}
PAGODA_INLINE void load_e4m3_pairs(const std::byte* p, F& even, F& odd) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  even = e4m3_of_upper(_mm256_slli_epi16(bytes, 8));
  odd = e4m3_of_upper(bytes);
}
PAGODA_INLINE F load_e4m3(const std::byte* p) {
  const __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return e4m3_of_upper(_mm256_slli_epi16(words, 8));
}
PAGODA_INLINE F look_up_nibbles(F table, W w, int n) {  // simd_avx512.h
  const auto half = [&](__m256i words) {
    const __m256i index = _mm256_srli_epi32(words, 4 * n);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.lo, index),
                            _mm256_permutevar8x32_ps(table.hi, index),
                            _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  };
  return {half(w.lo), half(w.hi)};
}
PAGODA_INLINE void prefetch_far(const std::byte* p) {  // to the second-level cache
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
}
PAGODA_INLINE void prefetch_write(const float* p) {  // to the first-level cache, for this core alone
  __builtin_prefetch(p, 1, 3);
}

PAGODA_INLINE F abs(F x) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(x.lo, mask), _mm256_and_ps(x.hi, mask)};
}
PAGODA_INLINE F exponent_part(F x) {  // simd_avx512.h
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
  return {_mm256_and_ps(x.lo, mask), _mm256_and_ps(x.hi, mask)};
}
PAGODA_INLINE float reduce_add(F x) {
  const __m256 m = _mm256_add_ps(x.lo, x.hi);
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}
PAGODA_INLINE float reduce_max(F x) {
  const __m256 m = _mm256_max_ps(x.lo, x.hi);
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_shuffle_ps(h, h, 1)));
}
PAGODA_INLINE std::int32_t reduce_add(I x) {
  const __m256i m = _mm256_add_epi32(x.lo, x.hi);
  __m128i h = _mm_add_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}
PAGODA_INLINE void store_int8(std::int8_t* p, I x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.lo, x.hi), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
PAGODA_INLINE void store_quads(QuadInput* p, I x) {
  const __m256i words =
      _mm256_packs_epi32(_mm256_shuffle_epi32(x.lo, 0xd8), _mm256_shuffle_epi32(x.hi, 0xd8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}
PAGODA_INLINE void store_signed_quads(QuadInput* p, I x) { store_quads(p, x); }

PAGODA_INLINE __m256 round_half_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i value = _mm256_and_si256(rounded, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
  return _mm256_blendv_ps(_mm256_castsi256_ps(value), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));  // NaN stays
}
PAGODA_INLINE F round_to_bf16(F x) { return {round_half_to_bf16(x.lo), round_half_to_bf16(x.hi)}; }
PAGODA_INLINE void store_pair_input(PairInput* p, F x) { store(p, round_to_bf16(x)); }

PAGODA_INLINE Pairs pairs_of(F even, F odd) { return {round_to_bf16(even), round_to_bf16(odd)}; }
PAGODA_INLINE void store_pairs(std::byte* p, const Pairs& w) {
  const auto join = [](__m256 even, __m256 odd) {
    return _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(even), 16), _mm256_castps_si256(odd));
  };
  store_weights(p, {join(w.even.lo, w.odd.lo), join(w.even.hi, w.odd.hi)});
}

PAGODA_INLINE void store_half(std::uint16_t* p, F x) {
  auto* out = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(out, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(out + 1, _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
PAGODA_INLINE void store_bf16(std::uint16_t* p, F x) {
  const F rounded = round_to_bf16(x);
  const __m256i lo = _mm256_srli_epi32(_mm256_castps_si256(rounded.lo), 16);
  const __m256i hi = _mm256_srli_epi32(_mm256_castps_si256(rounded.hi), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8));
}

// Transposes sixteen vectors of sixteen words, as in simd_avx512.h, as four quarters of eight by eight.
PAGODA_INLINE void turn_words(const std::byte* from, std::byte* to, std::int64_t stride) {
  for (int part = 0; part < 4; ++part) {
    const int first = part / 2 * 8, word = part % 2 * 8;  // index of the vectors, and within them
    __m256 rows[8], pairs[8];
    PAGODA_UNROLL
    for (int i = 0; i < 8; ++i)
      rows[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(from + 64 * (first + i) + 4 * word));
    PAGODA_UNROLL
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    PAGODA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const auto quad = [&](int i) {
        return j % 2 == 0 ? _mm256_shuffle_ps(pairs[i + j / 2], pairs[i + 2 + j / 2], 0x44)
                          : _mm256_shuffle_ps(pairs[i + j / 2], pairs[i + 2 + j / 2], 0xee);
      };
      const __m256 low = quad(0), high = quad(4);
      float* const out = reinterpret_cast<float*>(to + (word + j) * stride) + first;
      float* const later = reinterpret_cast<float*>(to + (word + 4 + j) * stride) + first;
      _mm256_storeu_ps(out, _mm256_permute2f128_ps(low, high, 0x20));
      _mm256_storeu_ps(later, _mm256_permute2f128_ps(low, high, 0x31));
    }
  }
}
// Transposes eight vectors of sixteen 16-bit pairs, as in simd_avx512.h.
PAGODA_INLINE void turn_pairs(const std::byte* from, std::byte* to, std::int64_t stride) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  for (int part = 0; part < 4; ++part) {
    const int first = part / 2 * 4, half = part % 2;  // index of the vectors, and half of each
    __m256i rows[4];
    PAGODA_UNROLL
    for (int i = 0; i < 4; ++i)
      rows[i] = _mm256_shuffle_epi8(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 64 * (first + i) + 32 * half)), order);
    const __m256i even = _mm256_unpacklo_epi64(rows[0], rows[1]),
                  odd = _mm256_unpackhi_epi64(rows[0], rows[1]),
                  later_even = _mm256_unpacklo_epi64(rows[2], rows[3]),
                  later_odd = _mm256_unpackhi_epi64(rows[2], rows[3]);
    const auto put = [&](int pair, __m256i x) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (4 * half + pair) * stride + 8 * first), x);
    };
    put(0, _mm256_permute2x128_si256(even, later_even, 0x20));
    put(1, _mm256_permute2x128_si256(odd, later_odd, 0x20));
    put(2, _mm256_permute2x128_si256(even, later_even, 0x31));
    put(3, _mm256_permute2x128_si256(odd, later_odd, 0x31));
  }
}

}  // namespace
}  // namespace pagoda::cpu::simd

#include "kernels/cpu/simd_quarter_sums.h"
