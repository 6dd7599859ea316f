// Attention over a cache in 8 bits (kv_layout.h). Both products are integer sums, hence exact. The other
// operands, queries and weights, are 16-bit numbers or, where the processor multiplies 8-bit numbers, two
// 8-bit digits:
//   x = (254 * high + low) * scale, digits in -127..127, where 32384 * scale is the row-head's largest |x|
// so the result follows from K and V exactly as stored, and both forms give the same numbers. The zero point
// of a byte, 128, is accounted for by the sum's start: -128 * the sum of the numbers or digits.
// Included by attention_inl.h, which has the parts common to all types.
namespace pagoda::cpu {
namespace {
namespace int8 {

// Chosen so that rounding x / kRadix gives at most 127, and kLargest / kRadix rounds to 127.
constexpr float kRadix = 254.0f, kLargest = 127.0f * 254.0f + 126.0f;
// A row without a larger value counts as 0: the division might overflow.
constexpr float kSmallest = 1e-30f;

constexpr int kDigits = sizeof(QuadInput) == 1 ? 2 : 1;
constexpr int kGroupInputs = 16 * kDigits;  // bytes of 16 numbers

// Sums of the digits of some numbers, by lane.
struct DigitSums {
  I of[kDigits];
};
PAGODA_INLINE void clear(DigitSums& sums) {
  PAGODA_UNROLL
  for (int d = 0; d < kDigits; ++d) sums.of[d] = izero();
}

// Writes 16 numbers, |x| <= kLargest, as 16 high digits and 16 low ones; adds them to the sums.
PAGODA_INLINE void put_digits(QuadInput* p, F x, DigitSums& sums) {
  if constexpr (kDigits == 2) {
    const I high = to_int(mul(x, set1(1.0f / kRadix)));
    const I low = to_int(fma(to_float(high), set1(-kRadix), x));
    store_quads(p, high);
    store_quads(p + 16, low);
    sums.of[0] = add(sums.of[0], high);
    sums.of[1] = add(sums.of[1], low);
  } else {
    const I number = to_int(x);
    store_quads(p, number);
    sums.of[0] = add(sums.of[0], number);
  }
}
struct Starts {
  std::int32_t of[kDigits];  // start of the sum of each digit's products
};
PAGODA_INLINE Starts starts_of(const DigitSums& sums) {
  Starts starts;
  PAGODA_UNROLL
  for (int d = 0; d < kDigits; ++d)  // modulo 2^32, like the products
    starts.of[d] = static_cast<std::int32_t>(-128u * static_cast<std::uint32_t>(reduce_add(sums.of[d])));
  return starts;
}

// A row-head's query: digits of 16 dimensions at a time, [width / 16][high, low][16], followed by this tail.
struct QueryTail {
  float scale;
  Starts starts;
};
PAGODA_INLINE std::int64_t query_bytes(std::int64_t width) { return 4 * width; }

void prepare(const AttentionTile& t, std::byte* out) {
  for (std::int32_t i = 0; i < t.num_row_heads(); ++i, out += query_bytes(t.width)) {
    const float* q = query_of(t, i);
    const auto part = [&](std::int32_t d) {
      return t.head_size - d >= 16 ? load(q + d) : load_n(q + d, t.head_size - d);
    };
    const float top = largest(q, t.head_size);
    const F inverse = set1(top > kSmallest ? kLargest / top : 0.0f);
    DigitSums sums;
    clear(sums);
    for (std::int32_t d = 0; d < t.width; d += 16)
      put_digits(reinterpret_cast<QuadInput*>(out + 2 * d), mul(part(d), inverse), sums);
    const QueryTail tail{.scale = top > kSmallest ? top / kLargest : 0.0f, .starts = starts_of(sums)};
    std::memcpy(out + 2 * t.width, &tail, sizeof tail);
  }
}

// A register tile of sums: kRows row-heads times kColumns vectors, per digit.
template <int kRows, int kColumns>
struct Sums {
  I of[kDigits][kRows][kColumns];

  PAGODA_INLINE void begin(Sums& s, int r, const Starts& starts) {
    PAGODA_UNROLL
    for (int d = 0; d < kDigits; ++d) {
      PAGODA_UNROLL
      for (int c = 0; c < kColumns; ++c) s.of[d][r][c] = iset1(starts.of[d]);
    }
  }
  // digits: of 4 elements of the first row-head; each further row-head is `row_step` inputs away.
  PAGODA_INLINE void add_products(Sums& s, const Quads (&w)[kColumns], const QuadInput* digits,
                                  std::int64_t row_step) {
    PAGODA_UNROLL
    for (int part = 0; part < kQuadParts; ++part) {
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        PAGODA_UNROLL
        for (int d = 0; d < kDigits; ++d) {
          const QuadInput* const x = digits + r * row_step + d * 16 + part * kPartInputs;
          PAGODA_UNROLL
          for (int c = 0; c < kColumns; ++c) s.of[d][r][c] = dot_part(s.of[d][r][c], w[c].part[part], x);
        }
      }
    }
  }
  PAGODA_INLINE F value(const Sums& s, int r, int c) {
    if constexpr (kDigits == 1) return to_float(s.of[0][r][c]);
    return fma(to_float(s.of[0][r][c]), set1(kRadix), to_float(s.of[kDigits - 1][r][c]));
  }
};

// scores[r][16 * g ...] times the keys' scales, for kRows row-heads and kGroups groups of tokens, without the
// query's scale. Meanwhile prefetches the groups' values, as in attention_inl.h.
template <int kRows, int kGroups>
void scores(const std::byte* q, std::int64_t width, const std::byte* const* keys,
            const std::byte* const* values, float* out) {
  using Tile = Sums<kRows, kGroups>;
  const std::int64_t row_bytes = query_bytes(width);
  Tile sums;
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QueryTail tail;
    std::memcpy(&tail, q + r * row_bytes + 2 * width, sizeof tail);
    Tile::begin(sums, r, tail.starts);
  }
  const std::byte *k[kGroups], *v[kGroups];
  PAGODA_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    k[g] = keys[g];
    v[g] = values[g];
  }
  const std::int64_t end = width * 16;
  for (std::int64_t at = 0; at < end; at += 256) {
    PAGODA_UNROLL
    for (int step = 0; step < 4; ++step) {
      Quads w[kGroups];
      PAGODA_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        w[g] = load_quads(k[g] + at + 64 * step);
        prefetch_far(v[g] + at + 64 * step);
      }
      Tile::add_products(sums, w, reinterpret_cast<const QuadInput*>(q + at / 8) + 4 * step,
                         row_bytes / static_cast<std::int64_t>(sizeof(QuadInput)));
    }
  }
  PAGODA_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const F scale = load(reinterpret_cast<const float*>(k[g] + end));
    prefetch_far(v[g] + end);
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) store(out + r * kPartition + g * 16, mul(Tile::value(sums, r, g), scale));
  }
}

// The softmax weights of one partition for kRows row-heads: digits [row][16 groups][high, low][16].
template <int kRows>
struct Weights {
  static constexpr std::int64_t kRow = kDigits * kPartition;
  alignas(64) QuadInput digits[kRows * kRow];
  float scale[kRows];
  Starts starts[kRows];
};

// values[r][d0 .. d0 + 16 * kVectors) over the tokens of groups [first, last). Meanwhile prefetches the keys
// that come next.
template <int kRows, int kVectors>
void weighted_values(const Weights<kRows>& weights, const PartitionKv& kv, std::int32_t first,
                     std::int32_t last, std::int64_t width, std::int64_t d0, float* out) {
  using Tile = Sums<kRows, kVectors>;
  Tile sums;
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) Tile::begin(sums, r, weights.starts[r]);
  for (std::int32_t g = first; g < last; ++g) {
    const std::byte* group = kv.values[g] + d0 * 4;
    const std::byte* next = kv.next[g] + d0 * 4;
    const QuadInput* digits = weights.digits + g * kGroupInputs;
    for (int step = 0; step < 4; ++step, group += width * 4, next += width * 4, digits += 4) {
      Quads w[kVectors];
      PAGODA_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        w[v] = load_quads(group + v * 64);
        prefetch_far(next + v * 64);
      }
      Tile::add_products(sums, w, digits, Weights<kRows>::kRow);
    }
    prefetch_far(next - d0 * 4);
  }
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const F scale = set1(weights.scale[r]);
    PAGODA_UNROLL
    for (int v = 0; v < kVectors; ++v)
      store(out + r * width + d0 + v * 16, mul(Tile::value(sums, r, v), scale));
  }
}

// Softmax weights of row-head r of the tile: e = 2^(factor * score - top), whose sum is returned, and the
// digits of e * the values' scales. Unused slots, scales included, may hold anything: their weights are
// replaced, not multiplied by 0.
template <int kRows>
PAGODA_INLINE float put_weights(Weights<kRows>& weights, int r, float* s, float factor, float top,
                                const PartitionKv& kv, std::int64_t width, std::int32_t first,
                                std::int32_t last, std::int32_t first_group, std::int32_t last_group) {
  const F factors = set1(factor), shift = set1(-top);
  F sum = zero(), most = zero();
  for (std::int32_t g = first / 16; g * 16 < last; ++g) {
    const F scale = load(reinterpret_cast<const float*>(kv.values[g] + 16 * width));
    F e = exp2(fma(load(s + g * 16), factors, shift)), p = mul(e, scale);
    if (first > g * 16 || last < g * 16 + 16) {
      e = keep_range(e, first - g * 16, last - g * 16, zero());
      p = keep_range(p, first - g * 16, last - g * 16, zero());
    }
    store(s + g * 16, p);
    // Keeps memory busy here; the remaining lines follow with the sum of the values.
    PAGODA_UNROLL
    for (int line = 0; line < 3; ++line) prefetch_far(kv.next[g] + (3 * r + line) * 64);
    sum = add(sum, e);
    most = max(most, p);
  }
  const float largest = reduce_max(most);
  const F inverse = set1(largest > kSmallest ? kLargest / largest : 0.0f);
  weights.scale[r] = largest > kSmallest ? largest / kLargest : 0.0f;
  DigitSums sums;
  clear(sums);
  for (std::int32_t g = first_group; g < last_group; ++g) {
    const bool inside = g * 16 < last && g * 16 + 16 > first;
    put_digits(weights.digits + r * weights.kRow + g * kGroupInputs,
               inside ? mul(load(s + g * 16), inverse) : zero(), sums);
  }
  weights.starts[r] = starts_of(sums);
  return reduce_add(sum);
}

template <int kRows>
void row_heads(const AttentionTile& t, const std::byte* query, std::int32_t partition, const PartitionKv& kv,
               std::int32_t begin, const AttentionState& out) {
  alignas(64) float score[kRows * kPartition];
  Weights<kRows> weights;
  const std::int32_t first_group = t.first_token(begin, partition) / 16;
  const std::int32_t last_group = (t.last_token(begin + kRows - 1, partition) + 15) / 16;
  const std::int64_t width = t.width;
  const std::byte* q = query + begin * query_bytes(width);

  constexpr int kColumns = int8_columns(kRows);
  std::int32_t group = first_group;
  for (; group + kColumns <= last_group; group += kColumns)
    scores<kRows, kColumns>(q, width, kv.keys + group, kv.values + group, score + group * 16);
  if constexpr (kColumns > 2) {
    for (; group + 2 <= last_group; group += 2)
      scores<kRows, 2>(q, width, kv.keys + group, kv.values + group, score + group * 16);
  }
  for (; group < last_group; ++group)
    scores<kRows, 1>(q, width, kv.keys + group, kv.values + group, score + group * 16);

  for (int r = 0; r < kRows; ++r) {
    const std::int32_t first = t.first_token(begin + r, partition), last = t.last_token(begin + r, partition);
    QueryTail tail;
    std::memcpy(&tail, q + r * query_bytes(width) + 2 * width, sizeof tail);
    float* s = score + r * kPartition;
    const float scale = tail.scale * t.scale, factor = t.shapes_scores() ? kLog2e : scale * kLog2e;
    if (t.shapes_scores()) shape_scores(t, begin + r, partition, first_group, last_group, scale, s);
    const float top = largest_score(s, first, last) * factor;
    out.max[begin + r] = top;
    out.sum[begin + r] =
        put_weights(weights, r, s, factor, top, kv, width, first, last, first_group, last_group);
  }

  float* values = out.values + begin * width;
  std::int64_t d = 0;
  for (; d + 16 * kColumns <= width; d += 16 * kColumns)
    weighted_values<kRows, kColumns>(weights, kv, first_group, last_group, width, d, values);
  for (; d < width; d += 16)
    weighted_values<kRows, 1>(weights, kv, first_group, last_group, width, d, values);
}

void run_partition(const AttentionTile& t, std::byte* work, std::int32_t partition, const PartitionKv& kv,
                   const AttentionState& out) {
  const std::int32_t count = t.num_row_heads();
  std::int32_t begin = 0;
  const auto run = [&]<int kRows>() {
    if constexpr (kRows <= kInt8RowHeads) {
      for (; begin + kRows <= count; begin += kRows) row_heads<kRows>(t, work, partition, kv, begin, out);
    }
  };
  run.template operator()<6>();
  run.template operator()<4>();
  run.template operator()<3>();
  run.template operator()<2>();
  run.template operator()<1>();
}

float quantize_row(const float* x, std::int32_t n, std::uint8_t* out) {
  const float top = largest(x, n);
  to_bytes(x, n, top >= kSmallest ? 127.0f / top : 0.0f, out);
  return top >= kSmallest ? top / 127.0f : 0.0f;
}

}  // namespace int8
}  // namespace
}  // namespace pagoda::cpu
