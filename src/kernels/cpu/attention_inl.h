// The inner loops of attention, written once over the sixteen lanes of simd_*.h. K is read as vectors of 16
// tokens and V as vectors of 16 dimensions, so both products are the same narrow matrix product: vectors
// times broadcast elements, each output one chain over the head size (scores) or the tokens (values).
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/int8_inl.h"
#include "kernels/cpu/lanes_inl.h"
#include "kernels/cpu/unroll.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

constexpr float kLog2e = 1.44269504088896341f;  // scores become exponents of 2

struct FloatKv {
  using Input = float;                          // queries and probabilities
  static constexpr int kStep = 1, kBytes = 64;  // elements of Input per step, bytes per vector
  using Vector = F;
  PAGODA_INLINE Vector load_vector(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  PAGODA_INLINE F madd(F acc, Vector v, const Input* x) { return fma(set1(*x), v, acc); }
  PAGODA_INLINE F put(Input* p, F x) {
    store(p, x);
    return x;
  }
};
struct HalfKv : FloatKv {
  static constexpr int kBytes = 32;
  PAGODA_INLINE Vector load_vector(const std::byte* p) { return load_half(p); }
};
struct E4m3Kv : FloatKv {  // divided by kE4m3Unit
  static constexpr int kBytes = 16;
  PAGODA_INLINE Vector load_vector(const std::byte* p) { return load_e4m3(p); }
};
struct Bf16Kv {
  using Input = PairInput;
  static constexpr int kStep = 2, kBytes = 64;
  using Vector = Pairs;
  PAGODA_INLINE Vector load_vector(const std::byte* p) { return load_pairs(p); }
  PAGODA_INLINE F madd(F acc, const Vector& v, const Input* x) { return dot2(acc, v, x); }
  PAGODA_INLINE F put(Input* p, F x) {  // returns the stored value, so that the sum is over the same numbers
    store_pair_input(p, x);
    return round_to_bf16(x);
  }
};

std::int64_t work_bytes(const AttentionTile& t) { return std::int64_t{4} * t.width * t.num_row_heads(); }

PAGODA_INLINE const float* query_of(const AttentionTile& t, std::int32_t row_head) {
  return t.query + row_head / t.group * t.query_stride +
         static_cast<std::int64_t>(row_head % t.group) * t.head_size;
}

template <class Kv>
void prepare(const AttentionTile& t, std::byte* work) {
  auto* out = reinterpret_cast<typename Kv::Input*>(work);
  for (std::int32_t i = 0; i < t.num_row_heads(); ++i, out += t.width) {
    const float* q = query_of(t, i);
    for (std::int32_t d = 0; d < t.width; d += 16) {
      const std::int32_t n = t.head_size - d;
      Kv::put(out + d, n >= 16 ? load(q + d) : load_n(q + d, n));
    }
  }
}

// scores[r][16 * g ...] for kRows row-heads and kGroups groups of tokens. Meanwhile prefetches the groups'
// values, as many bytes as their keys: the pieces are too short for the hardware prefetcher.
template <class Kv, int kRows, int kGroups>
void scores(const typename Kv::Input* q, std::int64_t width, const std::byte* const* keys,
            const std::byte* const* values, float* out) {
  F acc[kRows][kGroups];
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
  for (int g = 0; g < kGroups; ++g) acc[r][g] = zero();
  const std::byte* k[kGroups];
  PAGODA_UNROLL
  for (int g = 0; g < kGroups; ++g) k[g] = keys[g];
  for (std::int64_t step = 0; step < width / Kv::kStep; ++step) {
    typename Kv::Vector v[kGroups];
    PAGODA_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      v[g] = Kv::load_vector(k[g] + step * Kv::kBytes);
      prefetch_far(values[g] + step * Kv::kBytes);
    }
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int g = 0; g < kGroups; ++g) acc[r][g] = Kv::madd(acc[r][g], v[g], q + r * width + step * Kv::kStep);
  }
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
  for (int g = 0; g < kGroups; ++g) store(out + r * kPartition + g * 16, acc[r][g]);
}

// values[r][d0 .. d0 + 16 * kVectors) over the tokens of groups [first, last). Meanwhile prefetches the keys
// that come next.
template <class Kv, int kRows, int kVectors>
void weighted_values(const typename Kv::Input* p, const PartitionKv& kv, std::int32_t first,
                     std::int32_t last, std::int64_t width, std::int64_t d0, float* out) {  // width: of V
  F acc[kRows][kVectors];
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
  for (int v = 0; v < kVectors; ++v) acc[r][v] = zero();
  const std::int64_t row_bytes = width / 16 * Kv::kBytes;
  for (std::int32_t g = first; g < last; ++g) {
    const std::byte* group = kv.values[g] + d0 / 16 * Kv::kBytes;
    const std::byte* next = kv.next[g] + d0 / 16 * Kv::kBytes;
    for (int step = 0; step < 16 / Kv::kStep; ++step) {
      typename Kv::Vector vectors[kVectors];
      PAGODA_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        vectors[v] = Kv::load_vector(group + step * row_bytes + v * Kv::kBytes);
        prefetch_far(next + step * row_bytes + v * Kv::kBytes);
      }
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
      for (int v = 0; v < kVectors; ++v)
        acc[r][v] = Kv::madd(acc[r][v], vectors[v], p + r * kPartition + g * 16 + step * Kv::kStep);
    }
  }
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
  for (int v = 0; v < kVectors; ++v) store(out + r * width + d0 + v * 16, acc[r][v]);
}

// Derives V [16 tokens][value_width] from K [dimension][16 tokens].
void values_of_words(const std::byte* keys, std::int32_t value_width, std::byte* values) {
  for (std::int32_t d = 0; d < value_width; d += 16)
    turn_words(keys + d * std::int64_t{64}, values + d * std::int64_t{4}, value_width * std::int64_t{4});
}
void values_of_halves(const std::byte* keys, std::int32_t value_width, std::byte* values) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(keys);
  auto* to = reinterpret_cast<std::uint16_t*>(values);
  for (std::int32_t d = 0; d < value_width; ++d)
    for (std::int32_t t = 0; t < 16; ++t) to[t * value_width + d] = from[d * 16 + t];
}
void values_of_bytes(const std::byte* keys, std::int32_t value_width, std::byte* values) {
  for (std::int32_t d = 0; d < value_width; ++d)
    for (std::int32_t t = 0; t < 16; ++t) values[t * value_width + d] = keys[d * 16 + t];
}
// Derives V [8 token pairs][value_width][2] from K [pair of dimensions][16 tokens][2].
void values_of_pairs(const std::byte* keys, std::int32_t value_width, std::byte* values) {
  for (std::int32_t d = 0; d < value_width; d += 16)
    turn_pairs(keys + d * std::int64_t{32}, values + d * std::int64_t{4}, value_width * std::int64_t{4});
}

// The largest of one row-head's scores in [first, last).
PAGODA_INLINE float largest_score(const float* s, std::int32_t first, std::int32_t last) {
  const F lowest = set1(-3.0e38f);
  F top = lowest, second = lowest;
  std::int32_t at = first / 16 * 16;
  if (at < first && first < last) {
    top = keep_range(load(s + at), first - at, last - at, lowest);
    at += 16;
  }
  for (; at + 32 <= last; at += 32) {
    top = max(top, load(s + at));
    second = max(second, load(s + at + 16));
  }
  for (; at < last; at += 16) {
    const F v = load(s + at);
    top = max(top, last < at + 16 ? keep_range(v, 0, last - at, lowest) : v);
  }
  return reduce_max(max(top, second));
}

// Source: Lambert's continued fraction of tanh, up to the seventh term, at x / 8; then tanh(2y) = 2 t / (1 +
// t^2), with t = tanh(y), three times. Relative error below 1e-6.
PAGODA_INLINE F tanh(F x) {
  const F y = mul(max(min(x, set1(9.0f)), set1(-9.0f)), set1(0.125f));
  const F square = mul(y, y);
  const F above = fma(fma(add(square, set1(378.0f)), square, set1(17325.0f)), square, set1(135135.0f));
  const F below =
      fma(fma(fma(set1(28.0f), square, set1(3150.0f)), square, set1(62370.0f)), square, set1(135135.0f));
  F t = div(mul(y, above), below);
  for (int i = 0; i < 3; ++i) t = div(add(t, t), fma(t, t, set1(1.0f)));
  return t;
}

// Turns the products of one row-head into scores: multiplies by `scale`, then applies the soft cap and the
// ALiBi slopes.
PAGODA_INLINE void shape_scores(const AttentionTile& t, std::int32_t row_head, std::int32_t partition,
                                std::int32_t first_group, std::int32_t last_group, float scale, float* s) {
  alignas(64) static constexpr float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (std::int32_t g = first_group; g < last_group; ++g) {
    F v = mul(load(s + g * 16), set1(scale));
    if (t.softcap > 0) v = mul(tanh(mul(v, set1(1.0f / t.softcap))), set1(t.softcap));
    if (t.slopes != nullptr) {
      const std::int32_t ahead = partition * kPartition + g * 16 - t.position(row_head);
      v = fma(add(load(kLanes), set1(static_cast<float>(ahead))), set1(t.slopes[row_head % t.group]), v);
    }
    store(s + g * 16, v);
  }
}

// kRows row-heads, from `begin` on, against one partition. Never inlined: otherwise every size would be
// optimised once more inside one function.
template <class Kv, int kRows>
[[gnu::noinline]] void row_heads(const AttentionTile& t, const typename Kv::Input* query,
                                 std::int32_t partition, const PartitionKv& kv, std::int32_t begin,
                                 const AttentionState& out) {
  alignas(64) float score[kRows * kPartition];
  alignas(64) typename Kv::Input probability[kRows * kPartition];
  // Positions ascend with the row-head, so the first and last row-heads determine the ends of the range.
  const std::int32_t first_group = t.first_token(begin, partition) / 16;
  const std::int32_t last_group = (t.last_token(begin + kRows - 1, partition) + 15) / 16;
  const std::int64_t width = t.width;
  const auto* q = query + begin * width;

  constexpr int kGroups = score_groups(kRows);
  std::int32_t group = first_group;
  for (; group + kGroups <= last_group; group += kGroups) {
    scores<Kv, kRows, kGroups>(q, width, kv.keys + group, kv.values + group, score + group * 16);
  }
  for (; group < last_group; ++group)
    scores<Kv, kRows, 1>(q, width, kv.keys + group, kv.values + group, score + group * 16);

  const float scale = t.shapes_scores() ? kLog2e : t.scale * kLog2e;
  const F factor = set1(scale);
  for (int r = 0; r < kRows; ++r) {
    const std::int32_t first = t.first_token(begin + r, partition), last = t.last_token(begin + r, partition);
    float* s = score + r * kPartition;
    auto* p = probability + r * kPartition;
    if (t.shapes_scores()) shape_scores(t, begin + r, partition, first_group, last_group, t.scale, s);
    const float top = largest_score(s, first, last) * scale;
    const F shift = set1(-top);
    F sum = zero();
    for (std::int32_t g = first_group; g < last_group; ++g) {
      F e = zero();
      if (g * 16 < last && g * 16 + 16 > first) {
        e = exp2(fma(load(s + g * 16), factor, shift));
        if (first > g * 16 || last < g * 16 + 16) e = keep_range(e, first - g * 16, last - g * 16, zero());
        sum = add(sum, Kv::put(p + g * 16, e));
      } else {
        Kv::put(p + g * 16, e);
      }
    }
    out.max[begin + r] = top;
    out.sum[begin + r] = reduce_add(sum);
  }

  constexpr int kVectors = value_vectors(kRows);
  const std::int64_t value_width = t.value_width;
  float* values = out.values + begin * value_width;
  std::int64_t d = 0;
  for (; d + 16 * kVectors <= value_width; d += 16 * kVectors) {
    weighted_values<Kv, kRows, kVectors>(probability, kv, first_group, last_group, value_width, d, values);
  }
  for (; d < value_width; d += 16) {
    weighted_values<Kv, kRows, 1>(probability, kv, first_group, last_group, value_width, d, values);
  }
}

template <class Kv>
void run_partition(const AttentionTile& t, std::byte* work, std::int32_t partition, const PartitionKv& kv,
                   const AttentionState& out) {
  const auto* q = reinterpret_cast<const typename Kv::Input*>(work);
  const std::int32_t count = t.num_row_heads();
  std::int32_t begin = 0;
  // Uses the largest register tiles first.
  const auto run = [&]<int kRows>() {
    if constexpr (kRows <= kRowHeads) {
      for (; begin + kRows <= count; begin += kRows) row_heads<Kv, kRows>(t, q, partition, kv, begin, out);
    }
  };
  run.template operator()<12>();
  run.template operator()<8>();
  run.template operator()<6>();
  run.template operator()<4>();
  run.template operator()<3>();
  run.template operator()<2>();
  run.template operator()<1>();
}

// True if K and V in small floats are converted to floats once for all row-heads, when there are more
// row-heads than a register tile holds; the numbers are the same. Not for wide heads, whose floats may not
// fit into the second-level cache, nor with AVX2, where half precision gains nothing.
PAGODA_INLINE bool widens(const AttentionTile& t) {
  return kWidensFloats && t.num_row_heads() > kRowHeads && t.width <= 128 && t.value_width <= 128;
}
std::int64_t widened_work_bytes(const AttentionTile& t) {
  const std::int64_t floats = widens(t) ? kPartition * (t.width + t.value_width) : 0;
  return work_bytes(t) + floats * 4;
}
template <class Kv>
void run_widened(const AttentionTile& t, std::byte* work, std::int32_t partition, const PartitionKv& kv,
                 const AttentionState& out) {
  if (!widens(t)) return run_partition<Kv>(t, work, partition, kv, out);
  auto* to = reinterpret_cast<float*>(work + work_bytes(t));
  PartitionKv wide = {};
  const auto widen = [&](const std::byte* from, std::int32_t width, const std::byte* next) {
    for (std::int32_t i = 0; i < width; ++i) {
      store(to + 16 * i, Kv::load_vector(from + i * Kv::kBytes));
      if (i * Kv::kBytes % 64 == 0) prefetch_far(next + i * Kv::kBytes);
    }
    const auto* const floats = reinterpret_cast<const std::byte*>(to);
    to += width * 16;
    return floats;
  };
  const std::int32_t first = t.first_token(0, partition),
                     last = t.last_token(t.num_row_heads() - 1, partition);
  for (std::int32_t g = first / 16; g * 16 < last; ++g) {
    wide.keys[g] = wide.next[g] = widen(kv.keys[g], t.width, kv.values[g]);
    wide.values[g] = widen(kv.values[g], t.value_width, kv.next[g]);
  }
  run_partition<FloatKv>(t, work, partition, wide, out);
}

}  // namespace
}  // namespace pagoda::cpu

#include "kernels/cpu/attention_int8_inl.h"

namespace pagoda::cpu {
namespace {

void merge(const AttentionTile& t, const AttentionState& total, const AttentionState& part) {
  for (std::int32_t i = 0; i < t.num_row_heads(); ++i) {
    if (part.sum[i] == 0.0f) continue;  // no token of this partition
    float* into = total.values + static_cast<std::int64_t>(i) * t.value_width;
    const float* from = part.values + static_cast<std::int64_t>(i) * t.value_width;
    if (total.sum[i] == 0.0f) {
      for (std::int32_t d = 0; d < t.value_width; d += 16) store(into + d, load(from + d));
      total.max[i] = part.max[i];
      total.sum[i] = part.sum[i];
      continue;
    }
    const float top = total.max[i] > part.max[i] ? total.max[i] : part.max[i];
    const F a = exp2(set1(total.max[i] - top)), b = exp2(set1(part.max[i] - top));
    for (std::int32_t d = 0; d < t.value_width; d += 16)
      store(into + d, fma(load(from + d), b, mul(load(into + d), a)));
    alignas(64) float sum[16];
    store(sum, fma(set1(part.sum[i]), b, mul(set1(total.sum[i]), a)));
    total.sum[i] = sum[0];
    total.max[i] = top;
  }
}

void finish(const AttentionTile& t, const AttentionState& total) {
  for (std::int32_t i = 0; i < t.num_row_heads(); ++i) {
    float* out =
        t.output + i / t.group * t.output_stride + static_cast<std::int64_t>(i % t.group) * t.value_size;
    const float* values = total.values + static_cast<std::int64_t>(i) * t.value_width;
    F sum = set1(total.sum[i]), factor = set1(1.0f);
    if (t.sinks != nullptr) {
      const float sink = t.sinks[i % t.group] * kLog2e, top = sink > total.max[i] ? sink : total.max[i];
      factor = exp2(set1(total.max[i] - top));
      sum = fma(sum, factor, exp2(set1(sink - top)));
    }
    const F inverse = mul(div(factor, sum), set1(t.value_scale));
    for (std::int32_t d = 0; d < t.value_size; d += 16) {
      const F value = mul(load(values + d), inverse);
      if (t.value_size - d >= 16) {
        store(out + d, value);
      } else {
        store_n(out + d, value, t.value_size - d);
      }
    }
  }
}

void to_bf16(const float* x, std::int32_t n, std::uint16_t* out) {
  for (std::int32_t i = 0; i < n; i += 16)
    store_bf16(out + i, n - i >= 16 ? load(x + i) : load_n(x + i, n - i));
}
void to_f16(const float* x, std::int32_t n, std::uint16_t* out) {
  const F limit = set1(65504.0f), lowest = set1(-65504.0f);
  for (std::int32_t i = 0; i < n; i += 16) {
    const F v = n - i >= 16 ? load(x + i) : load_n(x + i, n - i);
    store_half(out + i, max(min(v, limit), lowest));
  }
}

// Rounds x[0] to x[15], at most 448 in magnitude, to the nearest number with 4 significant bits whose last
// bit is worth 2^-9 or more: adding 3 * 2^19 times the number's power of two leaves that many. In 16 bits,
// divided by kE4m3Unit, the number has its fraction and exponent behind four zeros.
void to_e4m3(const float* x, std::int32_t n, float scale, std::uint8_t* out) {
  const F divisor = set1(scale), most = set1(448.0f);
  for (std::int32_t i = 0; i < n; i += 16) {
    const F v = div(n - i >= 16 ? load(x + i) : load_n(x + i, n - i), divisor);
    const F size = min(abs(v), most);
    const F unit = mul(max(exponent_part(size), set1(0x1p-6f)), set1(0x1.8p20f));
    alignas(64) std::uint16_t half[16];
    alignas(64) std::uint32_t share[16];
    store_half(half, mul(sub(add(size, unit), unit), set1(1.0f / kE4m3Unit)));
    store(reinterpret_cast<float*>(share), v);
    for (int j = 0; j < 16; ++j)
      out[i + j] = static_cast<std::uint8_t>(half[j] >> 7 | (share[j] >> 24 & 0x80));
  }
}

template <class Kv>
constexpr AttentionKernelsOfType of_type(decltype(AttentionKernelsOfType::values_of_keys) values) {
  return {.work_bytes = work_bytes,
          .prepare = prepare<Kv>,
          .partition = run_partition<Kv>,
          .values_of_keys = values};
}
template <class Kv>
constexpr AttentionKernelsOfType widened_type(decltype(AttentionKernelsOfType::values_of_keys) values) {
  return {.work_bytes = widened_work_bytes,
          .prepare = prepare<Kv>,
          .partition = run_widened<Kv>,
          .values_of_keys = values};
}
constexpr AttentionKernels kAttentionKernels = {.to_bf16 = to_bf16,
                                                .to_f16 = to_f16,
                                                .to_int8 = int8::quantize_row,
                                                .to_e4m3 = to_e4m3,
                                                .f32 = of_type<FloatKv>(values_of_words),
                                                .f16 = widened_type<HalfKv>(values_of_halves),
                                                .bf16 = of_type<Bf16Kv>(values_of_pairs),
                                                .i8 = {.work_bytes = work_bytes,
                                                       .prepare = int8::prepare,
                                                       .partition = int8::run_partition,
                                                       .values_of_keys = nullptr},
                                                .e4m3 = widened_type<E4m3Kv>(values_of_bytes),
                                                .merge = merge,
                                                .finish = finish};

}  // namespace
}  // namespace pagoda::cpu
