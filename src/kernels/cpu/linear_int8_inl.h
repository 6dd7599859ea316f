#pragma once
// Products of rows in 8 bits with each layout of weights: bytes, or narrower numbers that are widened to
// bytes in registers (a single panel of rows) or a strip at a time (several panels). Both ways multiply the
// same integers and scales in the same order, so a row's bits are the same.
#include <bit>

#include "kernels/cpu/linear_products_inl.h"

namespace pagoda::cpu {
namespace {

// The bytes of one row's numbers in a group of 64 inputs, and of a group of `rows` rows.
constexpr std::int64_t kGroupRowBytes = 64 * sizeof(QuadInput);
constexpr std::int64_t group_bytes(std::int64_t rows) { return int8_group_bytes(rows, sizeof(QuadInput)); }

// Adds the products of a quad of inputs, at x for the first row.
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

// Unpacks quads v and v + 4 of 32 narrow numbers to bytes. The planes of 4, 2 and 1 bits, as far as the
// numbers have them, follow each other. A line of the first plane holds both quads; lines of the others hold
// two and four times as many.
template <PackedFormat kFormat>
PAGODA_INLINE void unpack(const std::byte* planes, int v, W& low, W& high) {
  constexpr int kBits = panel_layout(kFormat).bits;
  if constexpr (kBits >= 4) widen_nibbles(load_weights(planes + 64 * v), low, high);
  if constexpr (kBits % 4 >= 2) {
    const W pairs = shift_right(load_weights(planes + kBits / 4 * 256 + v / 2 * 64), v % 2 * 4);
    if constexpr (kBits > 4) {
      low = either(low, bits_of(shift_left(pairs, 4), 0x30));
      high = either(high, bits_of(shift_left(pairs, 2), 0x30));
    } else {
      low = bits_of(pairs, 3);
      high = bits_of(shift_right(pairs, 2), 3);
    }
  }
  if constexpr (kBits % 2 == 1) {
    const W single = shift_right(load_weights(planes + kBits / 2 * 128), v);
    if constexpr (kBits == 5) {
      low = either(low, bits_of(shift_left(single, 4), 0x10));
      high = either(high, bits_of(single, 0x10));
    } else {
      low = either(low, bits_of(shift_left(single, 2), 4));
      high = either(high, bits_of(shift_right(single, 2), 4));
    }
  }
  if constexpr (panel_layout(kFormat).bytes != nullptr) {
    low = look_up(panel_layout(kFormat).bytes, low);
    high = look_up(panel_layout(kFormat).bytes, high);
  }
}
template <PackedFormat kFormat>
PAGODA_INLINE void unpack(const std::byte* planes, int v, Quads& low, Quads& high) {
  if constexpr (panel_layout(kFormat).bits == 4 && panel_layout(kFormat).bytes == nullptr) {
    widen_nibbles(load_weights(planes + 64 * v), low, high);
  } else {
    W first, second;
    unpack<kFormat>(planes, v, first, second);
    low = quads_of(first);
    high = quads_of(second);
  }
}

// The scale and the quads of 32 inputs stored as points: defined in linear_points_inl.h, for processors with
// table lookups.
template <PackedFormat kFormat>
PAGODA_INLINE I point_scale(const std::byte* block, int group);
template <PackedFormat kFormat>
PAGODA_INLINE void unpack_points(const std::byte* block, int group, W (&quads)[8]);

// The eight quads of inputs 32 * group of a block.
template <PackedFormat kFormat>
PAGODA_INLINE void unpack_quads(const std::byte* block, int group, W (&quads)[8]) {
  if constexpr (has_points(kFormat)) {
    unpack_points<kFormat>(block, group, quads);
  } else {
    const std::byte* const planes = block + panel_layout(kFormat).scale_bytes + group * number_bytes(kFormat);
    PAGODA_UNROLL
    for (int v = 0; v < 4; ++v) unpack<kFormat>(planes, v, quads[v], quads[v + 4]);
  }
}

// sum += the products of quads [first, last) of 32 inputs of kRows rows, whose numbers begin at q. For narrow
// weights also the products of quads v + 4, which are added to `upper`.
template <PackedFormat kFormat, int kRows, int kCols, int kOneByOne>
PAGODA_INLINE void add_products(const LinearTile& t, const Ahead& ahead, const std::byte* w, int half,
                                const QuadInput* q, int first, int last, I (&sum)[kRows][kCols],
                                I (&upper)[kRows][kCols]) {
  constexpr bool kNarrow = is_narrow(kFormat);
  const auto step = [&](int v) {
    fetch_one<kOneByOne, kRows>(ahead, (kNarrow ? 4 : 8) * half + v);
    Quads low[kCols], high[kCols];
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) {
      if constexpr (kNarrow)
        unpack<kFormat>(w + c * t.strip_bytes, v, low[c], high[c]);
      else
        low[c] = load_quads(w + c * t.strip_bytes + v * 64);
    }
    add_quad(sum, low, q + 4 * v);
    if constexpr (kNarrow) add_quad(upper, high, q + 4 * v + 16);
  };
  if constexpr (kUnrollQuads) {
    PAGODA_UNROLL
    for (int v = first; v < last; ++v) step(v);
  } else {
    PAGODA_NO_UNROLL
    for (int v = first; v < last; ++v) step(v);
  }
}

// The number of lines per 64 inputs that are fetched one by one. With two strips, prefetching that many lines
// would leave too few registers (measured: half the speed).
template <PackedFormat kFormat, int kRows, int kCols, bool kFetch>
constexpr int lines_one_by_one() {
  if (!kFetch || kCols > 1) return 0;
  return !is_narrow(kFormat) ? 16 : kRows < kFetchRows ? 8 : 0;
}

// y = unit * the sum, over groups of inputs with one scale, of d * s * sum(u * q) + m * s * sum(q): exact
// integer sums with two or three float operations each. Without minima, the zero point is the start of the
// integer sum.
template <PackedFormat kFormat>
struct Int8Kernel {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  static_assert(kPanel.scales == PanelScales::shares);
  static constexpr bool kNarrow = is_narrow(kFormat);
  static constexpr int kMaxRows = kInt8Rows, kStreamHeight = kNarrow ? kStreamNarrowRows : kStreamInt8Rows;
  static constexpr bool kTwoStrips = !kNarrow;  // narrow weights go one strip at a time
  static constexpr int kFetchedStrips = 1;
  static constexpr int kStep = 64;
  static constexpr int kHalvesOfScale = kPanel.scale_inputs / 32;
  static constexpr int kScales = static_cast<int>(kPanel.block_inputs) / kPanel.scale_inputs;
  static constexpr int kTermShift =
      kPanel.minima ? 0 : std::countr_zero(unsigned{kZeroOfBytes}) - std::countr_zero(unsigned{kPanel.zero});

  // Adds the products of inputs 32 * half of a block. x: the panel's group that contains them.
  template <int kRows, int kCols, int kOneByOne>
  PAGODA_INLINE void add_group(const LinearTile& t, const Ahead& ahead, const std::byte* block,
                               const std::byte* x, int half, F (&acc)[kRows][kCols]) {
    const auto* const q = reinterpret_cast<const QuadInput*>(x) + half % 2 * 32;
    const auto* const scale = reinterpret_cast<const float*>(x + kRows * kGroupRowBytes) + half % 2 * kRows;
    const auto* const term = reinterpret_cast<const std::int32_t*>(scale + 2 * kRows);
    const float* const sum_of_row = scale + 4 * kRows;
    const std::byte* const w = block + kPanel.scale_bytes + half * number_bytes(kFormat);
    I sum[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) sum[r][c] = kPanel.minima ? izero() : iset1(term[r] >> kTermShift);
    }
    add_products<kFormat, kRows, kCols, kOneByOne>(t, ahead, w, half % 2, q, 0, kNarrow ? 4 : 8, sum, sum);
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const std::byte* const steps = block + c * t.strip_bytes + 32 * (half / kHalvesOfScale);
      const F d = load_half(steps);
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][c] = fma(to_float(sum[r][c]), mul(d, set1(scale[r])), acc[r][c]);
      if constexpr (kPanel.minima) {
        const F m = load_half(steps + 32 * kScales);
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) acc[r][c] = fma(m, set1(sum_of_row[r]), acc[r][c]);
      }
    }
  }

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = lines_one_by_one<kFormat, kRows, kCols, kFetch>();
    constexpr std::int64_t kBlockGroups = kPanel.block_inputs / 64;
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const std::byte* x = panel + t.first_input / 64 * group_bytes(kRows);
    const std::int64_t num_blocks = (t.k + kPanel.block_inputs - 1) / kPanel.block_inputs;
    const std::byte* const w = t.weights + strip * t.strip_bytes;
    const std::byte* block = w + kPanel.header_bytes;
    F acc[kRows][kCols];
    load_sums(t, row, strip, acc);
    for (std::int64_t i = 0; i < num_blocks; ++i, block += kPanel.block_bytes) {
      PAGODA_NO_UNROLL
      for (int group = 0; group < kBlockGroups; ++group, x += group_bytes(kRows)) {
        fetch<kOneByOne>(ahead);
        add_group<kRows, kCols, kOneByOne>(t, ahead, block, x, 2 * group, acc);
        add_group<kRows, kCols, kOneByOne>(t, ahead, block, x, 2 * group + 1, acc);
      }
    }
    if (!t.is_last_part) return store_sums(t, row, strip, acc);
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const F unit = load(reinterpret_cast<const float*>(w + c * t.strip_bytes));
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][c] = mul(acc[r][c], unit);
    }
    finish(t, row, strip, acc);
  }
};

}  // namespace
}  // namespace pagoda::cpu
