// The products of one panel of rows and one strip of columns (or several side by side), for each type of
// weights, written once over the sixteen lanes of simd_*.h and compiled once per instruction set. Each output
// element is one chain of additions over k in ascending order, whatever the shape of the register tile around
// it. Which panels meet which strips is linear_inl.h.
#include "kernels/cpu/int8_inl.h"
#include "kernels/cpu/later_reads.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/unroll.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

template <int kRows, int kCols>
PAGODA_INLINE void finish(const LinearTile& t, std::int64_t row, std::int64_t strip, F (&acc)[kRows][kCols]) {
  PAGODA_UNROLL
  for (int c = 0; c < kCols; ++c) {
    const std::int64_t column = (strip + c) * kStrip;
    const std::int64_t n = strip + c + 1 == t.num_strips ? t.last_columns : kStrip;
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* y = t.y + (row - t.first_row + r) * t.y_stride + column;
      F value = acc[r][c];
      if (n == kStrip) {
        if (t.bias != nullptr) value = add(value, load(t.bias + column));
        if (t.accumulate) value = add(load(y), value);
        t.past_caches ? store_past(y, value) : store(y, value);
      } else {
        if (t.bias != nullptr) value = add(value, load_n(t.bias + column, n));
        if (t.accumulate) value = add(load_n(y, n), value);
        store_n(y, value, n);
      }
    }
  }
}

// The products' places are most likely in another core's cache, from when they were last read there.
template <int kRows, int kCols>
PAGODA_INLINE void prefetch_results(const LinearTile& t, std::int64_t row, std::int64_t strip) {
  if (t.past_caches) return;
  PAGODA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c)
      prefetch_write(t.y + (row - t.first_row + r) * t.y_stride + (strip + c) * kStrip);
  }
}

static_assert(kStrips <= kMaxStrips);

// The lines that a panel prefetches for those after it, and for others: so many with each step of its own
// work, since many at once would hold it up. Rounded up: the last steps may repeat the next panel's first
// lines.
struct Ahead {
  const std::byte* next = nullptr;
  std::int64_t next_lines = 0;
  const std::byte* step = nullptr;  // this step's part of `next`
  LaterLines later;
};
// At the begin of a step all of its lines but the first kOneByOne, which fetch_one takes.
template <int kOneByOne>
PAGODA_INLINE void fetch(Ahead& ahead) {
  if constexpr (kOneByOne > 0) {
    ahead.step = ahead.next;
    ahead.next += 64 * (ahead.next_lines < kOneByOne ? ahead.next_lines : kOneByOne);
  }
  for (std::int64_t line = kOneByOne; line < ahead.next_lines; ++line, ahead.next += 64)
    prefetch_far(ahead.next);
  for_lines_of_step(ahead.later, [](const std::byte* line) { prefetch_far(line); });
}
// A panel that waits for memory should always have something to do: then the lines come one by one, each with
// a line of weights, and not sixteen at once. Few rows fetch one for each that they multiply, some twice when
// they are one of several small panels: a branch would cost one row up to 20 % (AVX2).
template <int kOneByOne, int kRows>
PAGODA_INLINE void fetch_one(const Ahead& ahead, std::int64_t line) {
  if (line < kOneByOne && (kRows < kFetchRows || line < ahead.next_lines))
    prefetch_far(ahead.step + 64 * line);
}

// Weights in f32, or in f16, which are widened: the same products.
template <bool kHalf>
struct FloatKernel {
  static constexpr int kMaxRows = kF32Rows, kStreamHeight = kF32Rows;
  static constexpr int kLineInputs = kHalf ? 2 : 1;  // that a line of 64 bytes holds for a strip
  static constexpr int kStep = 16 * kLineInputs;     // inputs from one fetch to the next
  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = kFetch ? 16 : 0;
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const auto* x = reinterpret_cast<const float*>(panel);
    const std::byte* w = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();
    for (std::int64_t k = 0; k < t.k; ++k) {
      if (k % kStep == 0) fetch<kOneByOne>(ahead);
      if (k % kLineInputs == 0) fetch_one<kOneByOne, kRows>(ahead, k % kStep / kLineInputs);
      F weights[kCols];
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        const std::byte* p = w + c * t.strip_bytes + k * (64 / kLineInputs);
        if constexpr (kHalf)
          weights[c] = load_half(p);
        else
          weights[c] = load(reinterpret_cast<const float*>(p));
      }
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const F value = set1(x[k * kRows + r]);
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) acc[r][c] = fma(value, weights[c], acc[r][c]);
      }
    }
    finish(t, row, strip, acc);
  }
};

struct Bf16Kernel {
  static constexpr int kMaxRows = kBf16Rows, kStreamHeight = kBf16Rows;
  static constexpr int kStep = 32;
  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = kFetch ? 16 : 0;
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const std::byte* w = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();
    const std::int64_t pairs = (t.k + 1) / 2;
    const auto* x = reinterpret_cast<const PairInput*>(panel);
    for (std::int64_t begin = 0; begin < pairs; begin += 16, x += kRows * 32) {
      fetch<kOneByOne>(ahead);
      const std::int64_t end = pairs - begin < 16 ? pairs : begin + 16;
      const PairInput* inputs = x;
      for (std::int64_t pair = begin; pair < end; ++pair, inputs += 2) {
        fetch_one<kOneByOne, kRows>(ahead, pair - begin);
        Pairs weights[kCols];
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) weights[c] = load_pairs(w + c * t.strip_bytes + pair * 64);
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          PAGODA_UNROLL
          for (int c = 0; c < kCols; ++c) acc[r][c] = dot2(acc[r][c], weights[c], inputs + 32 * r);
        }
      }
    }
    finish(t, row, strip, acc);
  }
};

// Bytes of a group of 64 inputs of kRows rows, and of one row's numbers in it.
constexpr std::int64_t kGroupRowBytes = 64 * sizeof(QuadInput);
constexpr std::int64_t group_bytes(std::int64_t rows) { return int8_group_bytes(rows, sizeof(QuadInput)); }

// Adds the products of a quad of inputs, which lies at x for the first of the rows.
template <int kRows, int kCols>
PAGODA_INLINE void add_quad(I (&sum)[kRows][kCols], const Quads (&w)[kCols], const QuadInput* x) {
  PAGODA_UNROLL
  for (int part = 0; part < kQuadParts; ++part) {
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c)
        sum[r][c] = dot_part(sum[r][c], w[c].part[part], x + r * 64 + part * kPartInputs);
    }
  }
}

// y = unit * sum over 32 inputs each of d * s * sum(u * q) + m * s * sum(q): integer sums, which are exact,
// and two or three float operations beside 32 inputs. Without minima the zero point, 128, is the integer
// sum's start. Weights in q4 are u in 0..15.
template <PackedFormat kFormat>
struct Int8Kernel {
  static constexpr int kMaxRows = kInt8Rows, kStreamHeight = kStreamNibbleRows;
  static constexpr int kStep = 64;
  static constexpr bool kNibbles = kFormat == PackedFormat::q4, kMinima = kFormat != PackedFormat::q8;
  static constexpr std::int64_t kGroupBytes = packed_block_bytes(kFormat);
  static constexpr std::int64_t kHalfBytes = kNibbles ? 256 : 512;  // weights of 32 inputs

  // Adds the products of half a group. `w`: its scales; x: the panel's group.
  template <int kRows, int kCols, int kOneByOne>
  PAGODA_INLINE void add_sublayer(const LinearTile& t, const Ahead& ahead, const std::byte* group,
                                  const std::byte* x, int half, F (&acc)[kRows][kCols]) {
    const auto* const q = reinterpret_cast<const QuadInput*>(x) + 32 * half;
    const auto* const scale = reinterpret_cast<const float*>(x + kRows * kGroupRowBytes) + half * kRows;
    const auto* const term = reinterpret_cast<const std::int32_t*>(scale + 2 * kRows);
    const float* const sum_of_row = scale + 4 * kRows;
    const std::byte* const w = group + scale_bytes(kFormat) + half * kHalfBytes;
    I sum[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) sum[r][c] = kMinima ? izero() : iset1(term[r]);
    }
    const auto step = [&](int v) {
      fetch_one<kOneByOne, kRows>(ahead, (kNibbles ? 4 : 8) * half + v);
      Quads weights[kCols], later[kCols];
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        const std::byte* const line = w + c * t.strip_bytes + v * 64;
        if constexpr (kNibbles)
          widen_nibbles(load_weights(line), weights[c], later[c]);
        else
          weights[c] = load_quads(line);
      }
      add_quad(sum, weights, q + 4 * v);
      if constexpr (kNibbles) add_quad(sum, later, q + 4 * v + 16);
    };
    constexpr int kSteps = kNibbles ? 4 : 8;
    if constexpr (kUnrollQuads) {
      PAGODA_UNROLL
      for (int v = 0; v < kSteps; ++v) step(v);
    } else {
      PAGODA_NO_UNROLL
      for (int v = 0; v < kSteps; ++v) step(v);
    }
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const std::byte* const scales = group + c * t.strip_bytes + half * 32;
      const F d = load_half(scales);
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][c] = fma(to_float(sum[r][c]), mul(d, set1(scale[r])), acc[r][c]);
      if constexpr (kMinima) {
        const F m = load_half(scales + 64);
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) acc[r][c] = fma(m, set1(sum_of_row[r]), acc[r][c]);
      }
    }
  }

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    // With two strips the prefetches of so many lines would leave too few registers (measured: half the
    // speed).
    constexpr int kOneByOne = !kFetch || kCols > 1 ? 0 : !kNibbles ? 16 : kRows < kFetchRows ? 8 : 0;
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const std::byte* x = panel;
    const std::int64_t groups = (t.k + 63) / 64;
    const std::byte* const w = t.weights + strip * t.strip_bytes;
    const std::byte* data = w + strip_header_bytes(kFormat);
    F acc[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) acc[r][c] = zero();
    for (std::int64_t group = 0; group < groups; ++group, data += kGroupBytes, x += group_bytes(kRows)) {
      fetch<kOneByOne>(ahead);
      add_sublayer<kRows, kCols, kOneByOne>(t, ahead, data, x, 0, acc);
      add_sublayer<kRows, kCols, kOneByOne>(t, ahead, data, x, 1, acc);
    }
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const F unit = load(reinterpret_cast<const float*>(w + c * t.strip_bytes));
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][c] = mul(acc[r][c], unit);
    }
    finish(t, row, strip, acc);
  }
};

// One strip from q4 to q8m.
void widen_strip(const std::byte* in, std::int64_t k, std::byte* out) {
  constexpr std::int64_t kScaleBytes = scale_bytes(PackedFormat::q4);
  static_assert(kScaleBytes == scale_bytes(PackedFormat::q8m));
  std::memcpy(out, in, 64);
  in += 64, out += 64;
  for (std::int64_t group = 0; group < (k + 63) / 64; ++group) {
    std::memcpy(out, in, kScaleBytes);
    in += kScaleBytes, out += kScaleBytes;
    for (int half = 0; half < 2; ++half, out += 512) {
      PAGODA_UNROLL
      for (int v = 0; v < 4; ++v, in += 64) {
        W low, high;
        widen_nibbles(load_weights(in), low, high);
        store_weights(out + v * 64, low);
        store_weights(out + 256 + v * 64, high);
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::cpu
