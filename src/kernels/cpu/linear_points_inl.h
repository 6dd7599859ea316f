#pragma once
// Products with weights stored as table points (panel_points.h), for processors with 64-byte lookups: a line
// of indices gives bytes that hold some coordinates' magnitudes; each magnitude with its sign is a weight.
// The integers, sums and scales are those of linear_blocks_inl.h.
#include "kernels/cpu/linear_blocks_inl.h"
#include "kernels/cpu/panel_points.h"

namespace pagoda::cpu {
namespace {

// For the row operand of 16 lines: which of 64 inputs each byte holds.
struct TurnedInputs {
  std::uint8_t from[64] = {};
  constexpr explicit TurnedInputs(const PointLayout& layout) {
    for (int at = 0; at < 64; ++at)
      from[at] = static_cast<std::uint8_t>(at / 32 * 32 + input_of(layout, at % 32 / 4, at % 4));
  }
};
template <PackedFormat kFormat>
alignas(64) constexpr TurnedInputs kTurnedInputs{point_layout(kFormat)};

// The scale of 32 or 16 inputs, depending on the layout.
template <PackedFormat kFormat>
PAGODA_INLINE I scale_of_points(const std::byte* block, int group) {
  constexpr PointLayout kLayout = point_layout(kFormat);
  I bits;
  if constexpr (!kLayout.has_scale_bytes())
    bits = upper_four_bits(load_integers(block + kLayout.signs_at(group)));
  else if (group % 2 == 0)
    bits = load_low_nibbles(block + kLayout.scales_at(group / 2));
  else
    bits = load_high_nibbles(block + kLayout.scales_at(group / 2));
  return add(add(bits, bits), iset1(1));
}
template <PackedFormat kFormat>
PAGODA_INLINE I point_scale(const std::byte* block, int group) {
  return scale_of_points<kFormat>(
      block, group * panel_layout(kFormat).scale_inputs / point_layout(kFormat).scale_inputs);
}

// Looks up the magnitudes for lines of indices: sizes[line][table]. The lines belong to adjacent groups of 32
// inputs or, for points of 4, to the same group: two lines share what is loaded of the tables.
template <PackedFormat kFormat, int kLines>
PAGODA_INLINE void look_up_sizes(const std::byte* block, int group, const PointTables& tables,
                                 W (&sizes)[kLines][2]) {
  constexpr PointLayout kLayout = point_layout(kFormat);
  W index[kLines];
  ByteBits upper[kLines][2];
  PAGODA_UNROLL
  for (int i = 0; i < kLines; ++i) {
    const int of = group + i / kLayout.lines(), line = i % kLayout.lines();
    index[i] = load_weights(block + kLayout.index_at(of, line));
    upper[i][0] = highest_bits(index[i]);
    if constexpr (kLayout.index_bits > 8)
      upper[i][1] = highest_bits(spread_upper_four(load_weights(block + kLayout.signs_at(of))));
  }
  PAGODA_UNROLL
  for (int table = 0; table < 2; ++table) {
    PAGODA_UNROLL
    for (int i = 0; i < kLines; ++i)
      sizes[i][table] = look_up_index<kLayout.index_bits>(tables.sizes[table], index[i], upper[i]);
  }
}

// The signs of the four merged bytes of 32 inputs; the other bits are unspecified.
template <PackedFormat kFormat>
PAGODA_INLINE void signs_of(const std::byte* block, int group, W (&signs)[4]) {
  constexpr PointLayout kLayout = point_layout(kFormat);
  const W sevens = sevens_of(load_weights(block + kLayout.signs_at(group)));
  if constexpr (kLayout.scale_inputs == 32) {
    PAGODA_UNROLL
    for (int m = 0; m < 4; ++m) signs[m] = parities(sevens, sign_matrix(kLayout, m));
  } else {
    const W first = parities(sevens, sign_matrix(kLayout, 0)),
            other = parities(sevens, sign_matrix(kLayout, 1));
    signs[0] = join_lower_halves(first, other);
    signs[2] = join_upper_halves(first, other);
    signs[1] = shift_right(signs[0], kSecondMergedShift);
    signs[3] = shift_right(signs[2], kSecondMergedShift);
  }
}

// 32 inputs of a strip, given the magnitudes of their lines of indices, as bytes offset by 128: byte j of
// lane c of line b is input_of(b, j) of output c.
template <PackedFormat kFormat>
PAGODA_INLINE void weights_of(const std::byte* block, int group, const W (*sizes)[2],
                              const PointTables& tables, W (&lines)[8]) {
  constexpr PointLayout kLayout = point_layout(kFormat);
  constexpr bool kOfEight = kLayout.coordinates == 8;
  W merged[4];
  signs_of<kFormat>(block, group, merged);
  PAGODA_UNROLL
  for (int m = 0; m < 4; ++m) {
    W of;
    if constexpr (!kOfEight)
      of = sizes[m / 2][m % 2];
    else if constexpr (kLayout.scale_inputs == 32)
      of = sizes[0][m / 2];
    else
      of = m < 2 ? join_lower_halves(sizes[0][0], sizes[0][1]) : join_upper_halves(sizes[0][0], sizes[0][1]);
    if (kOfEight && m % 2 == 1) of = shift_right(of, 2);
    merged[m] = where_set(merged_line(kLayout, 0).where, of, merged[m]);
  }
  PAGODA_UNROLL
  for (int b = 0; b < 8; ++b) {
    const MergedLine line = merged_line(kLayout, b);
    const W of = merged[line.merge];
    lines[b] = look_up_64(tables.weights[line.table], line.shift > 0 ? shift_right(of, line.shift) : of);
  }
}

// The same as quads: byte i of lane c of quads[v] is input 4 v + i of output c.
template <PackedFormat kFormat>
PAGODA_INLINE void unpack_points(const std::byte* block, int group, W (&quads)[8]) {
  constexpr PointLayout kLayout = point_layout(kFormat);
  const PointTables& tables = point_tables(kFormat);
  W sizes[kLayout.lines()][2], lines[8];
  look_up_sizes<kFormat>(block, group, tables, sizes);
  weights_of<kFormat>(block, group, sizes, tables, lines);
  PAGODA_UNROLL
  for (int half = 0; half < 2; ++half) {
    W four[4] = {lines[4 * half], lines[4 * half + 1], lines[4 * half + 2], lines[4 * half + 3]};
    turn_bytes(four);
    PAGODA_UNROLL
    for (int j = 0; j < 4; ++j) quads[input_of(kLayout, 4 * half, j) / 4] = four[j];
  }
}

template <PackedFormat kFormat>
struct PointKernel {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  static constexpr PointLayout kLayout = point_layout(kFormat);
  static constexpr bool kInHalves = kLayout.scale_inputs == 16;
  static constexpr int kMaxRows = kInt8Rows, kStreamHeight = kStreamNarrowRows;
  static constexpr bool kTwoStrips = false;
  static constexpr int kFetchedStrips = 0;
  static constexpr int kStep = 64;
  static_assert(kPanel.zero == kZeroOfBytes);

  // Adds the products of 32 inputs. q: the reordered numbers of kRows rows, 256 apart.
  template <int kRows>
  PAGODA_INLINE void add_group(const std::byte* block, int group, const W (*sizes)[2],
                               const PointTables& tables, const QuadInput* q, const RowSteps& steps,
                               I (&total)[kRows]) {
    W lines[8];
    weights_of<kFormat>(block, group, sizes, tables, lines);
    // Few rows: two chains of four additions, to shorten the dependency chains.
    constexpr bool kTwoSums = kInHalves || kRows <= 2;
    I sum[2][kRows];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sum[0][r] = iset1(kInHalves ? steps.early_term[r] : steps.term[r]);
      sum[1][r] = kInHalves ? iset1(steps.late_term[r]) : izero();
    }
    PAGODA_UNROLL
    for (int b = 0; b < 8; ++b) {
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        I& of = sum[kTwoSums ? b / 4 : 0][r];
        of = dot_part(of, lines[b], q + kSuperBlockInputs * r + 4 * b);
      }
    }
    constexpr int kScales = kInHalves ? 2 : 1;
    PAGODA_UNROLL
    for (int s = 0; s < kScales; ++s) {
      const I scale = scale_of_points<kFormat>(block, kScales * group + s);
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const I of = kTwoSums && !kInHalves ? add(sum[0][r], sum[1][r]) : sum[s][r];
        total[r] = add(total[r], mul(of, scale));
      }
    }
  }

  // Reorders the inputs of a block to the order of the lines; rows in `to` are 256 apart.
  template <int kRows>
  PAGODA_INLINE void turn_block(const std::byte* x, QuadInput* to) {
    PAGODA_NO_UNROLL
    for (int i = 0; i < kPointGroups / 2; ++i, x += group_bytes(kRows), to += 64) {
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r)
        turn_inputs(kTurnedInputs<kFormat>.from, reinterpret_cast<const QuadInput*>(x) + 64 * r,
                    to + kSuperBlockInputs * r);
    }
  }

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    static_assert(kCols == 1);
    Ahead ahead = first;
    prefetch_results<kRows, 1>(t, row, strip);
    const PointTables& tables = point_tables(kFormat);
    const std::byte* x = panel + t.first_input / 64 * group_bytes(kRows);
    const std::byte* block = t.weights + strip * t.strip_bytes;
    F acc[kRows][1];
    load_sums(t, row, strip, acc);
    // One block ahead: partial reads right after a full-width store would stall on it.
    alignas(64) QuadInput turned[2][kRows * kSuperBlockInputs];
    turn_block<kRows>(x, turned[0]);
    for (std::int64_t begin = 0; begin < t.k; begin += kSuperBlockInputs, block += kPanel.block_bytes) {
      const std::byte* const block_x = x;
      const QuadInput* const q = turned[begin / kSuperBlockInputs % 2];
      if (begin + kSuperBlockInputs < t.k)
        turn_block<kRows>(x + kPointGroups / 2 * group_bytes(kRows),
                          turned[1 - begin / kSuperBlockInputs % 2]);
      I total[kRows];
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) total[r] = izero();
      PAGODA_NO_UNROLL
      for (int pair = 0; pair < kPointGroups / 2; ++pair, x += group_bytes(kRows)) {
        fetch<0>(ahead);
        W sizes[2][2];
        if constexpr (kLayout.lines() == 1) look_up_sizes<kFormat>(block, 2 * pair, tables, sizes);
        const auto add_32 = [&](int half) __attribute__((always_inline)) {
          if constexpr (kLayout.lines() == 2) look_up_sizes<kFormat>(block, 2 * pair + half, tables, sizes);
          add_group<kRows>(block, 2 * pair + half, sizes + (kLayout.lines() == 1 ? half : 0), tables,
                           q + 64 * pair + 32 * half, row_steps(x, kRows, half * kRows), total);
        };
        add_32(0);
        add_32(1);
      }
      BlockSteps<kFormat> steps;
      read_steps(block, steps);
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r][0] = add_block(steps, total[r], block_x, kRows, r, acc[r][0]);
    }
    if (!t.is_last_part) return store_sums(t, row, strip, acc);
    finish(t, row, strip, acc);
  }
};

}  // namespace
}  // namespace pagoda::cpu
