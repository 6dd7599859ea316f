#pragma once
// The products of rows in 8 bits with the K types (keeps_file_numbers), whose scales and minima are integers
// times one number for 256 inputs, as the numbers of the rows are: all of a block is an integer sum, exact,
// so that every instruction set, and every order, gives the same one. A float operation or two for a block
// and row follow, blocks ascending.
#include <limits>

#include "kernels/cpu/linear_int8_inl.h"

namespace pagoda::cpu {
namespace {

// No number is further than 128 from its zero, and neither is a scale or one of a row's numbers. Minima are
// 63 at most.
static_assert(std::int64_t{128} * 128 * 128 * kSuperBlockInputs < std::numeric_limits<std::int32_t>::max());

// The numbers beside those of 64 inputs of a row in a panel of `rows`.
struct RowSteps {
  const float* scale;
  const std::int32_t *term, *early_term, *pair;
};
PAGODA_INLINE RowSteps row_steps(const std::byte* x, std::int64_t rows, std::int64_t row) {
  const auto* const floats = reinterpret_cast<const float*>(x + rows * kGroupRowBytes) + row;
  const auto* const integers = reinterpret_cast<const std::int32_t*>(floats);
  return {floats, integers + 2 * rows, integers + 6 * rows, integers + 8 * rows};
}

// The factors of a block's integer sums, and its minima, two neighbours in the 16 bits of each lane.
template <PackedFormat kFormat>
struct BlockSteps {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  static constexpr bool kInHalves = kPanel.scale_inputs == 16;
  static constexpr int kGroups = static_cast<int>(kSuperBlockInputs) / kPanel.scale_inputs;
  static constexpr int kPairs = kPanel.minima ? kGroups / 2 : 0;
  F d, dmin;
  I minima[kPairs + 1];  // no array is empty
};

template <PackedFormat kFormat>
PAGODA_INLINE I scale_of(const std::byte* block, int group) {
  constexpr PanelLayout kPanel = panel_layout(kFormat);
  const std::byte* const scales = block + (kPanel.minima ? 64 : 32) + 16 * group;
  if constexpr (kPanel.minima && kPanel.scale_inputs == 16)
    return load_low_nibbles(scales);
  else
    return load_int8(scales);
}
template <PackedFormat kFormat>
PAGODA_INLINE I minimum_of(const std::byte* block, int group) {
  if constexpr (BlockSteps<kFormat>::kInHalves)
    return load_high_nibbles(block + 64 + 16 * group);
  else
    return load_int8(block + 64 + 16 * (BlockSteps<kFormat>::kGroups + group));
}

template <PackedFormat kFormat>
PAGODA_INLINE void read_steps(const std::byte* block, BlockSteps<kFormat>& out) {
  out.d = load_half(block);
  if constexpr (panel_layout(kFormat).minima) {
    out.dmin = load_half(block + 32);
    PAGODA_UNROLL
    for (int pair = 0; pair < BlockSteps<kFormat>::kPairs; ++pair)
      out.minima[pair] =
          pack_pairs(minimum_of<kFormat>(block, 2 * pair), minimum_of<kFormat>(block, 2 * pair + 1));
  }
}

// The sums of a row's numbers beside a pair of minima. x: the first of the block's groups in a panel of
// `rows`.
template <PackedFormat kFormat>
PAGODA_INLINE I sums_of_inputs(const std::byte* x, std::int64_t rows, std::int64_t row, int pair) {
  if constexpr (BlockSteps<kFormat>::kInHalves) {
    const RowSteps steps = row_steps(x + pair / 2 * group_bytes(rows), rows, row);
    const std::int32_t early = steps.early_term[pair % 2 * rows], both = steps.term[pair % 2 * rows];
    // Terms are -128 times the sums.
    return iset1((-early >> 7 & 0xffff) | (early - both) / 128 * (1 << 16));
  } else {
    return iset1(*row_steps(x + pair * group_bytes(rows), rows, row).pair);
  }
}

// acc + the products of one row and a block, of which `sum` is the integer sum.
template <PackedFormat kFormat>
PAGODA_INLINE F add_block(const BlockSteps<kFormat>& steps, const I& sum, const std::byte* x,
                          std::int64_t rows, std::int64_t row, const F& acc) {
  F products = mul(to_float(sum), steps.d);
  if constexpr (panel_layout(kFormat).minima) {
    I minima = izero();
    PAGODA_UNROLL
    for (int pair = 0; pair < BlockSteps<kFormat>::kPairs; ++pair)
      minima = dot_pairs(minima, steps.minima[pair], sums_of_inputs<kFormat>(x, rows, row, pair));
    products = fma(to_float(minima), steps.dmin, products);
  }
  return fma(products, set1(*row_steps(x, rows, row).scale), acc);
}

template <PackedFormat kFormat>
struct BlockKernel {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  static_assert(kPanel.scales == PanelScales::bytes && kPanel.block_inputs == kSuperBlockInputs);
  static constexpr bool kNarrow = is_narrow(kFormat), kInHalves = kPanel.scale_inputs == 16;
  static constexpr int kMaxRows = kInt8Rows, kStreamHeight = kNarrow ? kStreamNarrowRows : kStreamInt8Rows;
  static constexpr bool kTwoStrips = !kNarrow;  // narrow weights are those of a single panel
  static constexpr int kStep = 64;
  // PreparedRows' terms are -128 * sum(q).
  static constexpr int kTermShift = kPanel.minima ? 7 : 7 - std::countr_zero(unsigned{kPanel.zero});

  // Adds the products of inputs 32 * half of a block, times their scale; x: the panel's group that they are
  // of.
  template <int kRows, int kCols, int kOneByOne>
  PAGODA_INLINE void add_sublayer(const LinearTile& t, const Ahead& ahead, const std::byte* block,
                                  const std::byte* x, int half, I (&total)[kRows][kCols]) {
    const auto* const q = reinterpret_cast<const QuadInput*>(x) + half % 2 * 32;
    const RowSteps steps = row_steps(x, kRows, half % 2 * kRows);
    const std::byte* const w = block + kPanel.scale_bytes + half * number_bytes(kFormat);
    I sum[kRows][kCols], later[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int32_t term = steps.term[r], early = kInHalves ? steps.early_term[r] : term;
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        sum[r][c] = kPanel.minima ? izero() : iset1(early >> kTermShift);
        later[r][c] = kPanel.minima ? izero() : iset1((term - early) >> kTermShift);
      }
    }
    const auto add_scaled = [&](const I(&sums)[kRows][kCols], int group) {
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        const I scale = scale_of<kFormat>(block + c * t.strip_bytes, group);
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r) total[r][c] = add(total[r][c], mul(sums[r][c], scale));
      }
    };
    if constexpr (!kInHalves) {
      add_products<kFormat, kRows, kCols, kOneByOne>(t, ahead, w, half % 2, q, 0, kNarrow ? 4 : 8, sum, sum);
      add_scaled(sum, half);
    } else {
      add_products<kFormat, kRows, kCols, kOneByOne>(t, ahead, w, half % 2, q, 0, 4, sum, later);
      add_scaled(sum, 2 * half);
      if constexpr (!kNarrow)
        add_products<kFormat, kRows, kCols, kOneByOne>(t, ahead, w, half % 2, q, 4, 8, later, later);
      add_scaled(later, 2 * half + 1);
    }
  }

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    constexpr int kOneByOne = lines_one_by_one<kFormat, kRows, kCols, kFetch>();
    Ahead ahead = first;
    prefetch_results<kRows, kCols>(t, row, strip);
    const std::byte* x = panel + t.first_input / 64 * group_bytes(kRows);
    const std::byte* block = t.weights + strip * t.strip_bytes;
    F acc[kRows][kCols];
    load_sums(t, row, strip, acc);
    for (std::int64_t begin = 0; begin < t.k; begin += kSuperBlockInputs, block += kPanel.block_bytes) {
      const std::byte* const block_x = x;
      I total[kRows][kCols];
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) total[r][c] = izero();
      }
      PAGODA_NO_UNROLL
      for (int group = 0; group < kSuperBlockInputs / 64; ++group, x += group_bytes(kRows)) {
        fetch<kOneByOne>(ahead);
        add_sublayer<kRows, kCols, kOneByOne>(t, ahead, block, x, 2 * group, total);
        add_sublayer<kRows, kCols, kOneByOne>(t, ahead, block, x, 2 * group + 1, total);
      }
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        BlockSteps<kFormat> steps;
        read_steps(block + c * t.strip_bytes, steps);
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r)
          acc[r][c] = add_block(steps, total[r][c], block_x, kRows, r, acc[r][c]);
      }
    }
    if (!t.is_last_part) return store_sums(t, row, strip, acc);
    finish(t, row, strip, acc);
  }
};

}  // namespace
}  // namespace pagoda::cpu
