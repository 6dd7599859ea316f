#pragma once
// Products of rows in 8 bits with the K types (keeps_file_numbers), whose scales and minima are integers
// times one factor per 256 inputs, as are the rows' numbers. A block is an exact integer sum, the same for
// every instruction set and every order. One or two float operations per block and row follow, blocks
// ascending.
#include <limits>

#include "kernels/cpu/linear_int8_inl.h"

namespace pagoda::cpu {
namespace {

// Numbers differ from their zero by at most 128; scales and rows' numbers are at most 128, too. Minima are at
// most 63.
static_assert(std::int64_t{128} * 128 * 128 * kSuperBlockInputs < std::numeric_limits<std::int32_t>::max());

// The values stored beside 64 inputs of a row in a panel of `rows`.
struct RowSteps {
  const float* scale;
  const std::int32_t *term, *early_term, *late_term, *pair, *peaks;
};
PAGODA_INLINE RowSteps row_steps(const std::byte* x, std::int64_t rows, std::int64_t row) {
  const auto* const floats = reinterpret_cast<const float*>(x + rows * kGroupRowBytes) + row;
  const auto* const integers = reinterpret_cast<const std::int32_t*>(floats);
  return {floats,
          integers + 2 * rows,
          integers + 6 * rows,
          integers + 8 * rows,
          integers + 10 * rows,
          integers + 11 * rows};
}

// The factors of a block's integer sums, and its minima, two adjacent ones per lane in 16 bits each.
template <PackedFormat kFormat>
struct BlockSteps {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  static constexpr bool kInHalves = kPanel.scale_inputs == 16;
  static constexpr int kGroups = static_cast<int>(kSuperBlockInputs) / kPanel.scale_inputs;
  static constexpr int kPairs = kPanel.minima ? kGroups / 2 : 0;
  F d, dmin;
  I minima[kPairs + 1];  // + 1: an array must not be empty
};

// Widened blocks begin with d in half precision and -dmin; those without minima with d in float32. Pairs of
// scales follow, then pairs of minima. The later scale of a pair is in the lower half, as the sums are
// (add_pair).
constexpr int kStepPairsAt = 64;
template <PackedFormat kFormat>
PAGODA_INLINE F block_scale(const std::byte* block) {
  constexpr PanelLayout kPanel = panel_layout(kFormat);
  if constexpr (!is_narrow(kFormat) && !kPanel.minima) return load(reinterpret_cast<const float*>(block));
  const F d = load_half(block);
  if constexpr (kPanel.share != 1)
    return mul(d, set1(kPanel.share));
  else
    return d;
}

template <PackedFormat kFormat>
PAGODA_INLINE I scale_of(const std::byte* block, int group) {
  constexpr PanelLayout kPanel = panel_layout(kFormat);
  if constexpr (!is_narrow(kFormat)) {
    const I pair = load_integers(block + kStepPairsAt + group / 2 * 64);
    return group % 2 == 0 ? upper_halves(pair) : lower_halves(pair);
  }
  if constexpr (has_points(kFormat)) return point_scale<kFormat>(block, group);
  const std::byte* const scales = block + (kPanel.minima ? 64 : 32) + 16 * group;
  if constexpr (kPanel.minima && kPanel.scale_inputs == 16)
    return load_low_nibbles(scales);
  else
    return load_int8(scales);
}
template <PackedFormat kFormat>
PAGODA_INLINE I scale_pair(const std::byte* block, int pair) {
  if constexpr (!is_narrow(kFormat)) return load_integers(block + kStepPairsAt + pair * 64);
  return pack_pairs(scale_of<kFormat>(block, 2 * pair + 1), scale_of<kFormat>(block, 2 * pair));
}
template <PackedFormat kFormat>
PAGODA_INLINE I minimum_pair(const std::byte* block, int pair) {
  using Steps = BlockSteps<kFormat>;
  if constexpr (!is_narrow(kFormat))
    return load_integers(block + kStepPairsAt + (Steps::kGroups / 2 + pair) * 64);
  const auto minimum = [&](int group) {
    if constexpr (Steps::kInHalves)
      return load_high_nibbles(block + 64 + 16 * group);
    else
      return load_int8(block + 64 + 16 * (Steps::kGroups + group));
  };
  return pack_pairs(minimum(2 * pair), minimum(2 * pair + 1));
}

template <PackedFormat kFormat>
PAGODA_INLINE void read_steps(const std::byte* block, BlockSteps<kFormat>& out) {
  out.d = block_scale<kFormat>(block);
  if constexpr (panel_layout(kFormat).minima) {
    out.dmin = load_half(block + 32);
    PAGODA_UNROLL
    for (int pair = 0; pair < BlockSteps<kFormat>::kPairs; ++pair)
      out.minima[pair] = minimum_pair<kFormat>(block, pair);
  }
}

// The sums of a row's numbers that belong to a pair of minima. x: the first of the block's groups in a panel
// of `rows`.
template <PackedFormat kFormat>
PAGODA_INLINE I sums_of_inputs(const std::byte* x, std::int64_t rows, std::int64_t row, int pair) {
  if constexpr (BlockSteps<kFormat>::kInHalves) {
    const RowSteps steps = row_steps(x + pair / 2 * group_bytes(rows), rows, row);
    const std::int32_t early = steps.early_term[pair % 2 * rows], late = steps.late_term[pair % 2 * rows];
    return iset1((-early / kZeroOfBytes & 0xffff) | -late / kZeroOfBytes * (1 << 16));
  } else {
    return iset1(*row_steps(x + pair * group_bytes(rows), rows, row).pair);
  }
}

// Returns acc + the products of one row and a block, whose integer sum is `sum`.
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
  static constexpr int kMaxRows = kInt8Rows, kStreamHeight = kNarrow ? kStreamNarrowRows : kInt8Rows;
  static constexpr bool kTwoStrips = !kNarrow;  // narrow weights go one strip at a time
  static constexpr int kFetchedStrips = 1;
  static constexpr int kStep = 64, kGroups = kSuperBlockInputs / kStep;
  // Signed bytes are too large for sums of 32 in 16 bits. Narrow weights with two scales in each line compute
  // both sums at once.
  static constexpr bool kHasPairs = kPairsSums && (kInHalves || kPanel.minima);
  static constexpr int kTermShift =
      kPanel.minima ? 0 : std::countr_zero(unsigned{kZeroOfBytes}) - std::countr_zero(unsigned{kPanel.zero});

  // Adds the products of inputs 32 * half of a block, times their scale. x: the panel's group that contains
  // them.
  template <int kRows, int kCols, int kOneByOne>
  PAGODA_INLINE void add_group(const LinearTile& t, const Ahead& ahead, const std::byte* block,
                               const std::byte* x, int half, I (&total)[kRows][kCols]) {
    const auto* const q = reinterpret_cast<const QuadInput*>(x) + half % 2 * 32;
    const RowSteps steps = row_steps(x, kRows, half % 2 * kRows);
    const std::byte* const w = block + kPanel.scale_bytes + half * number_bytes(kFormat);
    I sum[kRows][kCols], later[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int32_t start = kInHalves ? steps.early_term[r] : steps.term[r], late = steps.late_term[r];
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        sum[r][c] = kPanel.minima ? izero() : iset1(start >> kTermShift);
        later[r][c] = kPanel.minima ? izero() : iset1(late >> kTermShift);
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

  // The same for two groups of inputs with a scale each, pair `pair` of the block, where every sum under one
  // scale fits into 16 bits (sums_fit): both sums share a lane, and one multiplication serves both. Sums that
  // narrow weights do not compute at once are accumulated in the shared lane from the start: the first one
  // multiplied by 2^16, the second one below it. The second one starts at 2^15, so that it borrows nothing
  // from the first. x: the panel's group of 64 inputs that contains them.
  template <int kRows, int kCols, int kOneByOne>
  PAGODA_INLINE void add_pair(const LinearTile& t, const Ahead& ahead, const std::byte* block,
                              const std::byte* x, int pair, I (&total)[kRows][kCols]) {
    constexpr bool kAtOnce = kInHalves && kNarrow;
    const int first = kInHalves ? pair % 2 : 0, second = kInHalves ? first : 1;  // halves of the 64 inputs
    const RowSteps steps = row_steps(x, kRows, first * kRows);
    const auto* const q = reinterpret_cast<const QuadInput*>(x);
    const std::byte* const w =
        block + kPanel.scale_bytes + pair / (kInHalves ? 2 : 1) * 2 * number_bytes(kFormat);
    I sum[kRows][kCols], later[kRows][kCols];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PAGODA_UNROLL
      for (int c = 0; c < kCols; ++c) {
        sum[r][c] = kPanel.minima ? izero() : iset1(steps.early_term[r] >> kTermShift);
        later[r][c] = kPanel.minima ? izero() : iset1(steps.late_term[r] >> kTermShift);
      }
    }
    constexpr int kEarlyQuads = kNarrow || kInHalves ? 4 : 8;
    add_products<kFormat, kRows, kCols, kOneByOne>(t, ahead, w + first * number_bytes(kFormat), first,
                                                   q + first * 32, 0, kEarlyQuads, sum,
                                                   kAtOnce ? later : sum);
    if constexpr (!kAtOnce) {
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        PAGODA_UNROLL
        for (int c = 0; c < kCols; ++c) {
          sum[r][c] = add(to_upper_halves(sum[r][c]), iset1(kSignOfHalf));
          if constexpr (!kPanel.minima) sum[r][c] = add(sum[r][c], later[r][c]);
        }
      }
      add_products<kFormat, kRows, kCols, kOneByOne>(t, ahead, w + second * number_bytes(kFormat), second,
                                                     q + second * 32, kInHalves ? 4 : 0, kNarrow ? 4 : 8, sum,
                                                     sum);
    }
    PAGODA_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const I scales = scale_pair<kFormat>(block + c * t.strip_bytes, pair);
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const I both = kAtOnce ? pack_pairs(later[r][c], sum[r][c]) : flip(sum[r][c], iset1(kSignOfHalf));
        total[r][c] = dot_pairs(total[r][c], both, scales);
      }
    }
  }

  // True if that holds for a block. x: the first of its groups in the panel.
  template <int kRows>
  PAGODA_INLINE bool sums_fit(const LinearTile& t, const std::byte* x) {
    const RowSteps steps = row_steps(x, kRows, 0);
    std::int32_t peak = 0;
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const RowPeaks peaks = RowPeaks::of(steps.peaks[r]);
      peak = std::max(peak, kInHalves ? peaks.of_16 : peaks.of_32);
    }
    return peak * t.largest_number < kSignOfHalf;
  }

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    // Smaller register tiles are bound by latency or by memory.
    constexpr bool kPairs = kHasPairs && kRows * kCols > 6;
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
      // One pair, or one half of groups of 16, at a time: for two, clang keeps more values than there are
      // registers.
      bool in_pairs = false;
      if constexpr (kPairs) {
        in_pairs = sums_fit<kRows>(t, x);
        constexpr int kPairsOfGroup = kInHalves ? 2 : 1;
        PAGODA_NO_UNROLL
        for (int pair = 0; in_pairs && pair < kPairsOfGroup * kGroups; ++pair) {
          if (pair % kPairsOfGroup == 0) fetch<kOneByOne>(ahead);
          add_pair<kRows, kCols, kOneByOne>(t, ahead, block, x, pair, total);
          if (pair % kPairsOfGroup == kPairsOfGroup - 1) x += group_bytes(kRows);
        }
      }
      constexpr int kHalves = kInHalves ? 1 : 2;
      PAGODA_NO_UNROLL
      for (int half = 0; !in_pairs && half < 2 * kGroups; half += kHalves) {
        if (half % 2 == 0) fetch<kOneByOne>(ahead);
        add_group<kRows, kCols, kOneByOne>(t, ahead, block, x, half, total);
        if constexpr (kHalves == 2) add_group<kRows, kCols, kOneByOne>(t, ahead, block, x, half + 1, total);
        if (half % 2 == 2 - kHalves) x += group_bytes(kRows);
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
