#include "sampler/vector_math.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace pagoda {
namespace {

// Compiler vectors: one register on AVX-512, two or four on other targets, with the same lanes.
using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));
constexpr std::int64_t kLanes = 16;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

#define PAGODA_INLINE inline __attribute__((always_inline))

PAGODA_INLINE void load(const float* from, Floats& to) { std::memcpy(&to, from, sizeof to); }
PAGODA_INLINE void load_tail(const float* from, std::int64_t count, Floats& to) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) to[lane] = kMinusInfinity;
  std::memcpy(&to, from, static_cast<std::size_t>(count) * sizeof(float));
}

// Replaces t <= 0 by exp(t) in place. Cody-Waite reduction by ln 2 and a polynomial of degree 6 (Cephes).
PAGODA_INLINE void exponential(Floats& t) {
  const Floats limit = Floats{} - 87.0f;
  const Ints alive = t >= limit;
  const Floats clamped = alive ? t : limit;
  const Floats magic = Floats{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats shifted = clamped * 1.44269504088896341f + magic;
  const Floats n = shifted - magic;
  const Floats r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Ints bits;
  Ints exponent;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits = (bits + (exponent << 23)) & alive;
  std::memcpy(&t, &bits, sizeof t);
}

PAGODA_INLINE void block_maxima_body(const float* x, std::int64_t count, float* maxima) {
  for (std::int64_t start = 0; start < count; start += kMaximaBlock) {
    const std::int64_t end = std::min(start + kMaximaBlock, count);
    Floats best = Floats{} + kMinusInfinity;
    for (std::int64_t i = start; i < end; i += kLanes) {
      Floats value;
      if (end - i >= kLanes) {
        load(x + i, value);
      } else {
        load_tail(x + i, end - i, value);
      }
      best = value > best ? value : best;
    }
    float result = best[0];
    for (std::int64_t lane = 1; lane < kLanes; ++lane) result = std::max(result, best[lane]);
    *maxima++ = result;
  }
}

PAGODA_INLINE void exponentials_body(const float* x, std::int64_t count, float shift, float scale,
                                     float* weights, float* block_sums) {
  for (std::int64_t start = 0; start < count; start += kSumBlock) {
    const std::int64_t end = std::min(start + kSumBlock, count);
    Floats sum = {};
    std::int64_t i = start;
    for (; i + kLanes <= end; i += kLanes) {
      Floats value;
      load(x + i, value);
      value = (value - shift) * scale;
      exponential(value);
      sum += value;
      std::memcpy(weights + i, &value, sizeof value);
    }
    if (i < end) {
      Floats value;
      load_tail(x + i, end - i, value);
      value = (value - shift) * scale;
      exponential(value);
      sum += value;
      std::memcpy(weights + i, &value, static_cast<std::size_t>(end - i) * sizeof(float));
    }
    float total = 0;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) total += sum[lane];
    *block_sums++ = total;
  }
}

PAGODA_INLINE void masked_copy_body(const float* from, const std::uint32_t* words, std::int64_t count,
                                    float* to) {
  Ints bit;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) bit[lane] = 1 << lane;
  const Floats none = Floats{} + kMinusInfinity;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto half = static_cast<std::int32_t>(words[i / 32] >> (i % 32) & 0xffffu);
    Floats value;
    load(from + i, value);
    value = ((Ints{} + half) & bit) != 0 ? value : none;
    std::memcpy(to + i, &value, sizeof value);
  }
  for (; i < count; ++i) to[i] = (words[i / 32] >> (i % 32) & 1u) != 0 ? from[i] : kMinusInfinity;
}

#if defined(__x86_64__)
#define PAGODA_AVX2 __attribute__((target("avx2")))
#define PAGODA_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
PAGODA_AVX2 void block_maxima_avx2(const float* x, std::int64_t count, float* maxima) {
  block_maxima_body(x, count, maxima);
}
PAGODA_AVX512 void block_maxima_avx512(const float* x, std::int64_t count, float* maxima) {
  block_maxima_body(x, count, maxima);
}
PAGODA_AVX2 void exponentials_avx2(const float* x, std::int64_t count, float shift, float scale,
                                   float* weights, float* block_sums) {
  exponentials_body(x, count, shift, scale, weights, block_sums);
}
PAGODA_AVX512 void exponentials_avx512(const float* x, std::int64_t count, float shift, float scale,
                                       float* weights, float* block_sums) {
  exponentials_body(x, count, shift, scale, weights, block_sums);
}
PAGODA_AVX2 void masked_copy_avx2(const float* from, const std::uint32_t* words, std::int64_t count,
                                  float* to) {
  masked_copy_body(from, words, count, to);
}
PAGODA_AVX512 void masked_copy_avx512(const float* from, const std::uint32_t* words, std::int64_t count,
                                      float* to) {
  masked_copy_body(from, words, count, to);
}
#endif

}  // namespace

void masked_copy(CpuLevel level, const float* from, const std::uint32_t* words, std::int64_t count,
                 float* to) {
#if defined(__x86_64__)
  if (level == CpuLevel::avx512) return masked_copy_avx512(from, words, count, to);
  if (level == CpuLevel::avx2) return masked_copy_avx2(from, words, count, to);
#endif
  (void)level;
  masked_copy_body(from, words, count, to);
}

void block_maxima(CpuLevel level, const float* x, std::int64_t count, float* maxima) {
#if defined(__x86_64__)
  if (level == CpuLevel::avx512) return block_maxima_avx512(x, count, maxima);
  if (level == CpuLevel::avx2) return block_maxima_avx2(x, count, maxima);
#endif
  (void)level;
  block_maxima_body(x, count, maxima);
}

void exponentials(CpuLevel level, const float* x, std::int64_t count, float shift, float scale,
                  float* weights, float* block_sums) {
#if defined(__x86_64__)
  if (level == CpuLevel::avx512) return exponentials_avx512(x, count, shift, scale, weights, block_sums);
  if (level == CpuLevel::avx2) return exponentials_avx2(x, count, shift, scale, weights, block_sums);
#endif
  (void)level;
  exponentials_body(x, count, shift, scale, weights, block_sums);
}

}  // namespace pagoda
