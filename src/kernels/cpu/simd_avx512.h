#pragma once
// Sixteen lanes in one AVX-512 register. Included only by files compiled for AVX-512 F, BW, VL, DQ, VNNI,
// BF16 and VBMI, and GFNI; everything is static, so that no such code leaks into other files through the
// linker.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/unroll.h"

#define PAGODA_INLINE static inline __attribute__((always_inline))

namespace pagoda::cpu::simd {
namespace {

constexpr int score_groups(int row_heads) { return row_heads <= 3 ? 4 : 2; }
constexpr int value_vectors(int row_heads) { return row_heads <= 6 ? 4 : 2; }

// Register tiles of linear (rows x strips) and of attention (row-heads).
#ifdef PAGODA_SMALL_TILES
constexpr int kF32Rows = 3, kBf16Rows = 3, kInt8Rows = 2, kStreamInt8Rows = 2, kStreamNarrowRows = 2,
              kIntegerRows = 2, kStrips = 2, kRowHeads = 3;
#else
constexpr int kF32Rows = 12, kBf16Rows = 12, kInt8Rows = 6, kStreamInt8Rows = 12, kStreamNarrowRows = 8,
              kIntegerRows = 12, kStrips = 2, kRowHeads = 12;
#endif

constexpr bool kWidensFloats = true;  // attention_inl.h
constexpr int kStateVectors = 2;      // a row of a state in linear attention
// The same for an int8 cache, with two digits per number of each row-head (attention_int8_inl.h).
#ifdef PAGODA_SMALL_TILES
constexpr int kInt8RowHeads = 2;
#else
constexpr int kInt8RowHeads = 6;
#endif
constexpr int int8_columns(int row_heads) { return row_heads <= 3 ? 4 : 2; }

using F = __m512;   // 16 floats
using I = __m512i;  // 16 int32
using W = __m512i;  // 64 bytes of weights: 16 columns x 4 uint8

PAGODA_INLINE F zero() { return _mm512_setzero_ps(); }
PAGODA_INLINE F set1(float x) { return _mm512_set1_ps(x); }
PAGODA_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
PAGODA_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
// Stores a whole line, bypassing the caches; p is aligned to it. Visible to other threads after fence().
PAGODA_INLINE void store_past(float* p, F x) { _mm512_stream_ps(p, x); }
PAGODA_INLINE void fence() { _mm_sfence(); }
PAGODA_INLINE __mmask16 first(std::int64_t n) {
  return n >= 16 ? 0xffff : static_cast<__mmask16>((1u << n) - 1u);
}
PAGODA_INLINE F load_n(const float* p, std::int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
PAGODA_INLINE void store_n(float* p, F x, std::int64_t n) { _mm512_mask_storeu_ps(p, first(n), x); }
PAGODA_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
PAGODA_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
PAGODA_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
PAGODA_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
PAGODA_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
PAGODA_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
PAGODA_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
PAGODA_INLINE F load_half(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
PAGODA_INLINE F load_bf16(const void* p) {
  const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Lanes first <= i < last from x, the others from `other`.
PAGODA_INLINE F keep_range(F x, int first, int last, F other) {
  const auto below = [](int n) { return n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u; };
  return _mm512_mask_mov_ps(other, static_cast<__mmask16>(below(last) & ~below(first)), x);
}
PAGODA_INLINE F sqrt(F x) { return _mm512_sqrt_ps(x); }

PAGODA_INLINE unsigned greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }  // a bit per lane

PAGODA_INLINE void store_half(std::uint16_t* p, F x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
PAGODA_INLINE void store_bf16(std::uint16_t* p, F x) {
  const __m256bh y = _mm512_cvtneps_pbh(x);
  std::memcpy(p, &y, 32);
}

PAGODA_INLINE I izero() { return _mm512_setzero_si512(); }
PAGODA_INLINE I add(I a, I b) { return _mm512_add_epi32(a, b); }
PAGODA_INLINE I mul(I a, I b) { return _mm512_mullo_epi32(a, b); }
PAGODA_INLINE I iset1(std::int32_t x) { return _mm512_set1_epi32(x); }
// Packs two numbers into the 16-bit halves of each lane; and acc[lane] += the products of the lane's halves.
PAGODA_INLINE I pack_pairs(I low, I high) {
  constexpr int kFirstWhereSet = 0xca;
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xffff), low, _mm512_slli_epi32(high, 16),
                                   kFirstWhereSet);
}
PAGODA_INLINE I dot_pairs(I acc, I a, I b) { return _mm512_dpwssd_epi32(acc, a, b); }
PAGODA_INLINE I lower_halves(I x) { return _mm512_srai_epi32(_mm512_slli_epi32(x, 16), 16); }
PAGODA_INLINE I upper_halves(I x) { return _mm512_srai_epi32(x, 16); }
PAGODA_INLINE I load_integers(const std::byte* p) { return _mm512_loadu_si512(p); }
PAGODA_INLINE void store_integers(std::byte* p, I x) { _mm512_storeu_si512(p, x); }
constexpr bool kPairsSums = true;  // linear_blocks_inl.h
PAGODA_INLINE I to_upper_halves(I x) { return _mm512_slli_epi32(x, 16); }
PAGODA_INLINE I flip(I x, I bits) { return _mm512_xor_si512(x, bits); }
PAGODA_INLINE F to_float(I x) { return _mm512_cvtepi32_ps(x); }
PAGODA_INLINE I to_int(F x) { return _mm512_cvtps_epi32(x); }  // to nearest even

PAGODA_INLINE W load_weights(const std::byte* p) { return _mm512_loadu_si512(p); }
PAGODA_INLINE void store_weights(std::byte* p, W w) { _mm512_storeu_si512(p, w); }
// 8-bit weights in the form in which they are multiplied, all four inputs of each column at once; and the
// other operand.
constexpr int kQuadParts = 1;
struct Quads {
  W part[kQuadParts];
};
using QuadInput = std::int8_t;
constexpr bool kUnrollQuads = true;
PAGODA_INLINE Quads load_quads(const std::byte* p) { return {{load_weights(p)}}; }
// acc[lane] += sum of the lane's 4 unsigned weights times the 4 signed bytes at x.
PAGODA_INLINE I dot_part(I acc, W w, const QuadInput* x) {
  std::int32_t quad;
  std::memcpy(&quad, x, 4);
  return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(quad));
}

// The same for signed weights. One operand must be unsigned, so the inputs are stored offset by 128, and sums
// start with the correction for it: -128 times the sum of an output's weights, at `correction`.
PAGODA_INLINE I first_sums(const std::byte* correction) { return _mm512_loadu_si512(correction); }
PAGODA_INLINE Quads load_signed_quads(const std::byte* p) { return load_quads(p); }
PAGODA_INLINE I dot_signed_part(I acc, W w, const QuadInput* x) {
  std::int32_t quad;
  std::memcpy(&quad, x, 4);
  return _mm512_dpbusd_epi32(acc, _mm512_set1_epi32(quad), w);
}

// Unpacks 4-bit weights, 16 columns x 4 bytes with two in each, to bytes: the low ones and the high ones.
PAGODA_INLINE void widen_nibbles(W w, W& low, W& high) {
  const W mask = _mm512_set1_epi8(15);
  low = _mm512_and_si512(w, mask);
  high = _mm512_and_si512(_mm512_srli_epi16(w, 4), mask);
}
PAGODA_INLINE void widen_nibbles(W w, Quads& low, Quads& high) {
  widen_nibbles(w, low.part[0], high.part[0]);
}
// Shifts of bytes: bits of the neighbouring byte are shifted in, and bits_of removes them.
PAGODA_INLINE W shift_right(W w, int bits) { return _mm512_srli_epi16(w, static_cast<unsigned>(bits)); }
PAGODA_INLINE W shift_left(W w, int bits) { return _mm512_slli_epi16(w, static_cast<unsigned>(bits)); }
PAGODA_INLINE W bits_of(W w, int mask) {
  return _mm512_and_si512(w, _mm512_set1_epi8(static_cast<char>(mask)));
}
PAGODA_INLINE W either(W a, W b) { return _mm512_or_si512(a, b); }
PAGODA_INLINE W add_bytes(W w, int x) { return _mm512_add_epi8(w, _mm512_set1_epi8(static_cast<char>(x))); }
// Replaces bytes below 16 by the table's entries.
PAGODA_INLINE W look_up(const std::uint8_t* table, W w) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), w);
}
PAGODA_INLINE Quads quads_of(W w) { return {{w}}; }

// Points of a table (linear_points_inl.h).
#define PAGODA_LOOKS_UP_POINTS 1
// The highest bit of each of 64 bytes.
using ByteBits = __mmask64;
PAGODA_INLINE ByteBits highest_bits(W w) { return _mm512_movepi8_mask(w); }
// Looks up bytes in a table of 2^kBits, by indices whose lower 8 bits are a byte. upper: their bits 7 and
// above.
template <int kBits>
PAGODA_INLINE W look_up_index(const std::uint8_t* table, W index, const ByteBits* upper) {
  if constexpr (kBits == 7) {
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(table), index, _mm512_loadu_si512(table + 64));
  } else {
    const W low = look_up_index<kBits - 1>(table, index, upper);
    const W high = look_up_index<kBits - 1>(table + (1 << (kBits - 1)), index, upper);
    return _mm512_mask_blend_epi8(upper[kBits - 8], low, high);
  }
}
// Looks up bytes in a table of 64, by the lower 6 bits.
PAGODA_INLINE W look_up_64(const std::uint8_t* table, W index) {
  return _mm512_permutexvar_epi8(index, _mm512_loadu_si512(table));
}
// The bits of a where `where` has a 1 in each byte, and otherwise those of b.
PAGODA_INLINE W where_set(int where, W a, W b) {
  constexpr int kFirstWhereSet = 0xca;
  return _mm512_ternarylogic_epi32(_mm512_set1_epi8(static_cast<char>(where)), a, b, kFirstWhereSet);
}
// Four groups of 7 bits of each word, as bytes whose upper bits are unspecified.
PAGODA_INLINE W sevens_of(W words) {
  return _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x352e2720150e0700), words);
}
// Bit i of each byte becomes the parity of the bits selected by byte 7 - i of `matrix`.
PAGODA_INLINE W parities(W w, std::uint64_t matrix) {
  return _mm512_gf2p8affine_epi64_epi8(w, _mm512_set1_epi64(static_cast<long long>(matrix)), 0);
}
PAGODA_INLINE I upper_four_bits(I words) { return _mm512_srli_epi32(words, 28); }
// Bit 28 + j of each word as the highest bit of its byte j.
PAGODA_INLINE W spread_upper_four(W words) {
  return _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x3837363518171615), words);
}
// Two lines of words: the lower halves of a's and b's words, and the upper halves.
PAGODA_INLINE W join_lower_halves(W a, W b) {
  constexpr int kFirstWhereSet = 0xca;
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xffff), a, _mm512_slli_epi32(b, 16), kFirstWhereSet);
}
PAGODA_INLINE W join_upper_halves(W a, W b) {
  constexpr int kFirstWhereSet = 0xca;
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xffff), _mm512_srli_epi32(a, 16), b, kFirstWhereSet);
}
// Transposes bytes: in each lane, byte j of w[i] becomes byte i of w[j].
PAGODA_INLINE void turn_bytes(W (&w)[4]) {
  constexpr int kFirstWhereSet = 0xca;
  const W even = _mm512_set1_epi32(0x00ff00ff), low = _mm512_set1_epi32(0x0000ffff);
  const auto choose = [&](W where, W a, W b) {
    return _mm512_ternarylogic_epi32(where, a, b, kFirstWhereSet);
  };
  const W a = choose(even, w[0], _mm512_slli_epi32(w[1], 8)),
          b = choose(even, _mm512_srli_epi32(w[0], 8), w[1]),
          c = choose(even, w[2], _mm512_slli_epi32(w[3], 8)),
          d = choose(even, _mm512_srli_epi32(w[2], 8), w[3]);
  w[0] = choose(low, a, _mm512_slli_epi32(c, 16));
  w[1] = choose(low, b, _mm512_slli_epi32(d, 16));
  w[2] = choose(low, _mm512_srli_epi32(a, 16), c);
  w[3] = choose(low, _mm512_srli_epi32(b, 16), d);
}
// 64 inputs in the order of `from`.
PAGODA_INLINE void turn_inputs(const std::uint8_t* from, const QuadInput* x, QuadInput* to) {
  _mm512_storeu_si512(to, _mm512_permutexvar_epi8(_mm512_loadu_si512(from), _mm512_loadu_si512(x)));
}
// Sixteen signed bytes, and the halves of sixteen unsigned ones.
PAGODA_INLINE I load_int8(const std::byte* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
PAGODA_INLINE I load_low_nibbles(const std::byte* p) {
  const I bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_and_si512(bytes, _mm512_set1_epi32(15));
}
PAGODA_INLINE I load_high_nibbles(const std::byte* p) {
  const I bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_srli_epi32(bytes, 4);
}

PAGODA_INLINE F pow2(I n) {  // n in -126..127
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

PAGODA_INLINE F round_even(F x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// Adds the signed number in the last bits of n to x's exponent; the sum must be a valid exponent.
PAGODA_INLINE F add_to_exponent(F x, F n) {
  return _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
}

// bf16 pairs: 16 columns x 2 inputs of weights, and the storage type of the other operand.
using Pairs = __m512bh;
using PairInput = std::uint16_t;
PAGODA_INLINE Pairs load_pairs(const std::byte* p) { return (__m512bh)_mm512_loadu_si512(p); }
// acc[lane] += w[lane][0] * x[0] + w[lane][1] * x[1]
PAGODA_INLINE F dot2(F acc, Pairs w, const PairInput* x) {
  std::int32_t pair;
  std::memcpy(&pair, x, 4);
  return _mm512_dpbf16_ps(acc, w, (__m512bh)_mm512_set1_epi32(pair));
}
PAGODA_INLINE void store_pair_input(PairInput* p, F x) {  // round to nearest even
  const __m256bh y = _mm512_cvtneps_pbh(x);
  std::memcpy(p, &y, 32);
}
PAGODA_INLINE F round_to_bf16(F x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16));
}
PAGODA_INLINE void store_pairs(std::byte* p, Pairs w) { _mm512_storeu_si512(p, (__m512i)w); }
// Two inputs of 16 columns, rounded to nearest even.
PAGODA_INLINE Pairs pairs_of(F even, F odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return (__m512bh)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}
// e4m3 numbers times 2^-8: from bytes in the upper halves of 16 bits, from 16 columns x 2 inputs, and from 16
// bytes.
PAGODA_INLINE F e4m3_of_upper(__m256i bytes) {
  const __m256i bits = _mm256_set1_epi16(static_cast<short>(0xbf80));
  return _mm512_cvtph_ps(_mm256_and_si256(_mm256_srai_epi16(bytes, 1), bits));
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
// Looks up floats in a table of 16, by bits 4 n to 4 n + 3 of each lane.
PAGODA_INLINE F look_up_nibbles(F table, W w, int n) {
  return _mm512_permutexvar_ps(_mm512_srli_epi32(w, static_cast<unsigned>(4 * n)), table);
}
PAGODA_INLINE void prefetch_far(const std::byte* p) {  // to the second-level cache
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
}
PAGODA_INLINE void prefetch_write(const float* p) {  // to the first-level cache, exclusively for this core
  __builtin_prefetch(p, 1, 3);
}

PAGODA_INLINE F abs(F x) { return _mm512_abs_ps(x); }
PAGODA_INLINE F exponent_part(F x) {  // the largest power of two not above |x|
  return _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32(0x7f800000)));
}
PAGODA_INLINE float reduce_add(F x) { return _mm512_reduce_add_ps(x); }
PAGODA_INLINE float reduce_max(F x) { return _mm512_reduce_max_ps(x); }
PAGODA_INLINE std::int32_t reduce_add(I x) { return _mm512_reduce_add_epi32(x); }
PAGODA_INLINE void store_int8(std::int8_t* p, I x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
}
PAGODA_INLINE void store_quads(QuadInput* p, I x) { store_int8(p, x); }
// Stores 64 numbers that are whole and fit into a byte. Returns the sums, and sums of magnitudes, per 16 of
// them.
struct QuarterSums {
  std::int32_t sum[4], magnitude[4];
};
PAGODA_INLINE void store_quads(QuadInput* p, const I (&x)[4], QuarterSums& out) {
  const __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
  const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i q = _mm512_permutexvar_epi32(turn, packed);
  _mm512_storeu_si512(p, q);
  // Sums of eight bytes, each offset by 128; the upper halves of 64 bits hold the sums of magnitudes.
  const __m512i top = _mm512_set1_epi8(static_cast<char>(0x80)), none = _mm512_setzero_si512();
  const __m512i eights = _mm512_or_si512(_mm512_sad_epu8(_mm512_xor_si512(q, top), none),
                                         _mm512_slli_epi64(_mm512_sad_epu8(_mm512_abs_epi8(q), none), 32));
  const __m512i sums = _mm512_add_epi32(eights, _mm512_shuffle_epi32(eights, _MM_PERM_BADC));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m256i all = _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, sums));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.sum),
                   _mm_sub_epi32(_mm256_castsi256_si128(all), _mm_set1_epi32(16 * 128)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.magnitude), _mm256_extracti128_si256(all, 1));
}
PAGODA_INLINE void store_signed_quads(QuadInput* p, I x) { store_int8(p, add(x, iset1(128))); }

// Transposes sixteen consecutive vectors of sixteen words: word w of vector v becomes word v of the vector at
// to + w * stride bytes.
PAGODA_INLINE void turn_words(const std::byte* from, std::byte* to, std::int64_t stride) {
  __m512i rows[16], pairs[16], quads[16];
  PAGODA_UNROLL
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_si512(from + 64 * i);
  PAGODA_UNROLL
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  PAGODA_UNROLL
  for (int i = 0; i < 16; i += 4) {  // quads[i + j], 128 bits l: word 4 l + j of four vectors
    quads[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    quads[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    quads[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  PAGODA_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(quads[j], quads[4 + j], 0x88),
                  odd = _mm512_shuffle_i32x4(quads[j], quads[4 + j], 0xdd),
                  later_even = _mm512_shuffle_i32x4(quads[8 + j], quads[12 + j], 0x88),
                  later_odd = _mm512_shuffle_i32x4(quads[8 + j], quads[12 + j], 0xdd);
    _mm512_storeu_si512(to + j * stride, _mm512_shuffle_i32x4(even, later_even, 0x88));
    _mm512_storeu_si512(to + (4 + j) * stride, _mm512_shuffle_i32x4(odd, later_odd, 0x88));
    _mm512_storeu_si512(to + (8 + j) * stride, _mm512_shuffle_i32x4(even, later_even, 0xdd));
    _mm512_storeu_si512(to + (12 + j) * stride, _mm512_shuffle_i32x4(odd, later_odd, 0xdd));
  }
}
// Transposes eight vectors of sixteen 16-bit pairs: halves h and h + 1 of words w and w + 1 of vector v, with
// w even, become words 2 v and 2 v + 1 of the vector at to + w / 2 * stride, the first halves first.
PAGODA_INLINE void turn_pairs(const std::byte* from, std::byte* to, std::int64_t stride) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  __m512i rows[8], pairs[8];
  PAGODA_UNROLL
  for (int i = 0; i < 8; ++i) rows[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(from + 64 * i), order);
  PAGODA_UNROLL
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm512_unpacklo_epi64(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi64(rows[i], rows[i + 1]);
  }
  PAGODA_UNROLL
  for (int j = 0; j < 2; ++j) {
    const __m512i even = _mm512_shuffle_i64x2(pairs[j], pairs[2 + j], 0x88),
                  odd = _mm512_shuffle_i64x2(pairs[j], pairs[2 + j], 0xdd),
                  later_even = _mm512_shuffle_i64x2(pairs[4 + j], pairs[6 + j], 0x88),
                  later_odd = _mm512_shuffle_i64x2(pairs[4 + j], pairs[6 + j], 0xdd);
    _mm512_storeu_si512(to + j * stride, _mm512_shuffle_i64x2(even, later_even, 0x88));
    _mm512_storeu_si512(to + (2 + j) * stride, _mm512_shuffle_i64x2(odd, later_odd, 0x88));
    _mm512_storeu_si512(to + (4 + j) * stride, _mm512_shuffle_i64x2(even, later_even, 0xdd));
    _mm512_storeu_si512(to + (6 + j) * stride, _mm512_shuffle_i64x2(odd, later_odd, 0xdd));
  }
}

}  // namespace
}  // namespace pagoda::cpu::simd
