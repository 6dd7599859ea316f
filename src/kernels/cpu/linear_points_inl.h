#pragma once
// Products with weights that are points of a table (panel_points.h), by processors that look up 64 bytes at
// once: a line of indices gives bytes of four coordinates' sizes, and each of these with its sign a weight.
// What is multiplied are the integers of linear_blocks_inl.h, and sums and scales are as there.
#include "kernels/cpu/linear_blocks_inl.h"
#include "kernels/cpu/panel_points.h"

namespace pagoda::cpu {
namespace {

// Which of 64 inputs each byte of the other operand of 16 lines is: line b of 32 inputs has inputs 8 j + b.
struct TurnedInputs {
  std::uint8_t from[64] = {};
  constexpr TurnedInputs() {
    for (int at = 0; at < 64; ++at)
      from[at] = static_cast<std::uint8_t>(at / 32 * 32 + at % 4 * 8 + at % 32 / 4);
  }
};
alignas(64) constexpr TurnedInputs kTurnedInputs{};

// The scale of 32 inputs.
PAGODA_INLINE I scale_of_points(const std::byte* block, int group) {
  const I bits = upper_four_bits(load_integers(block + signs_at(group)));
  return add(add(bits, bits), iset1(1));
}
template <PackedFormat kFormat>
PAGODA_INLINE I point_scale(const std::byte* block, int group) {
  return scale_of_points(block, group * panel_layout(kFormat).scale_inputs / 32);
}

// 32 inputs of a strip as bytes, 128 larger: byte j of lane c of line b is input 8 j + b of output c.
PAGODA_INLINE void look_up_lines(const std::byte* block, int group, const PointTables& tables,
                                 W (&lines)[8]) {
  const W index = load_weights(block + indices_at(group));
  const W sevens = sevens_of(load_weights(block + signs_at(group)));
  PAGODA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const W sizes = look_up_256(tables.sizes[half], index), signs = parities(sevens, sign_matrix(half));
    PAGODA_UNROLL
    for (int i = 0; i < 4; ++i) {
      const SizeField field = kSizeFields[i];
      const W shifted = field.shift > 0 ? shift_right(sizes, field.shift) : sizes;
      lines[4 * half + i] = look_up_either(tables.weights[i], shifted, signs, field.where);
    }
  }
}

// The same as quads: byte i of lane c of quads[v] is input 4 v + i of output c.
template <PackedFormat kFormat>
PAGODA_INLINE void unpack_points(const std::byte* block, int group, W (&quads)[8]) {
  W lines[8];
  look_up_lines(block, group, point_tables(), lines);
  PAGODA_UNROLL
  for (int half = 0; half < 2; ++half) {
    W four[4] = {lines[4 * half], lines[4 * half + 1], lines[4 * half + 2], lines[4 * half + 3]};
    turn_bytes(four);
    PAGODA_UNROLL
    for (int j = 0; j < 4; ++j) quads[2 * j + half] = four[j];
  }
}

template <PackedFormat kFormat>
struct PointKernel {
  static constexpr PanelLayout kPanel = panel_layout(kFormat);
  static constexpr int kMaxRows = kInt8Rows, kStreamHeight = kStreamNarrowRows;
  static constexpr bool kTwoStrips = false;
  static constexpr int kStep = 64;
  static_assert(kPanel.zero == kZeroOfBytes);

  // Adds the products of 32 inputs; q: kRows rows' numbers, turned, 64 apart.
  template <int kRows>
  PAGODA_INLINE void add_group(const std::byte* block, int group, const PointTables& tables,
                               const QuadInput* q, const std::int32_t* terms, I (&total)[kRows]) {
    W lines[8];
    look_up_lines(block, group, tables, lines);
    I sum[kRows];
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] = iset1(terms[r]);
    PAGODA_UNROLL
    for (int b = 0; b < 8; ++b) {
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r] = dot_part(sum[r], lines[b], q + 64 * r + 4 * b);
    }
    const I scale = scale_of_points(block, group);
    PAGODA_UNROLL
    for (int r = 0; r < kRows; ++r) total[r] = add(total[r], mul(sum[r], scale));
  }

  template <int kRows, int kCols, bool kFetch>
  static void run(const LinearTile& t, std::int64_t row, const std::byte* panel, std::int64_t strip,
                  const Ahead& first) {
    static_assert(kCols == 1);
    Ahead ahead = first;
    prefetch_results<kRows, 1>(t, row, strip);
    const PointTables& tables = point_tables();
    const std::byte* x = panel + t.first_input / 64 * group_bytes(kRows);
    const std::byte* block = t.weights + strip * t.strip_bytes;
    F acc[kRows][1];
    load_sums(t, row, strip, acc);
    for (std::int64_t begin = 0; begin < t.k; begin += kSuperBlockInputs, block += kPanel.block_bytes) {
      const std::byte* const block_x = x;
      I total[kRows];
      PAGODA_UNROLL
      for (int r = 0; r < kRows; ++r) total[r] = izero();
      PAGODA_NO_UNROLL
      for (int pair = 0; pair < kPointGroups / 2; ++pair, x += group_bytes(kRows)) {
        fetch<0>(ahead);
        alignas(64) QuadInput turned[kRows * 64];
        PAGODA_UNROLL
        for (int r = 0; r < kRows; ++r)
          turn_inputs(kTurnedInputs.from, reinterpret_cast<const QuadInput*>(x) + 64 * r, turned + 64 * r);
        PAGODA_NO_UNROLL
        for (int half = 0; half < 2; ++half)
          add_group<kRows>(block, 2 * pair + half, tables, turned + 32 * half,
                           row_steps(x, kRows, half * kRows).term, total);
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
