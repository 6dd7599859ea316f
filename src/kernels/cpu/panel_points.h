#pragma once
// Panels of IQ2_XXS, IQ2_XS and IQ3_XXS as points of a table (has_points), in as many bits as the file has. A
// block is 256 inputs of 16 outputs: d in half precision; of IQ2_XS the scales of 16 inputs each, two to a
// byte, the first below; then for 32 inputs each a line of indices, two of IQ3_XXS, and one of signs. A line
// is a word of 32 bits for each output. The word of signs has 7 of each 8 inputs, since the eighth makes
// their number even, and above these the scale of all 32 or, of IQ2_XS, the ninth bits of the indices.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/linear_tile.h"
#include "kernels/weight_format.h"

namespace pagoda::cpu {

constexpr int kPointGroups = kSuperBlockInputs / 32;  // a block has so many

struct PointLayout {
  int coordinates;   // each point has 8, or 4
  int index_bits;    // 8 or 9
  int scale_inputs;  // 32 have one scale; or 16, whose scales are bytes behind d

  // The lines of indices for 32 inputs.
  constexpr int lines() const { return 8 / coordinates; }
  constexpr bool has_scale_bytes() const { return scale_inputs == 16; }
  constexpr std::int64_t scales_at(int group) const { return 32 + 16 * group; }
  constexpr std::int64_t index_at(int group, int line) const {
    return (has_scale_bytes() ? scales_at(kPointGroups) : 32) + 64 * (group * (lines() + 1) + line);
  }
  constexpr std::int64_t signs_at(int group) const { return index_at(group, lines()); }
};
constexpr PointLayout point_layout(PackedFormat format) {
  if (format == PackedFormat::iq2_xs_points) return {8, 9, 16};
  return {format == PackedFormat::iq3_xxs_points ? 4 : 8, 8, 32};
}

// Eight lines of 4 bytes for each output come out of 32 inputs, in two halves: with a scale for 32 inputs,
// line b has inputs 8 j + b, so that a half is 4 coordinates of all its points. With a scale for 16 a half
// has one: line 4 h + i has inputs 16 h + 8 (j % 2) + 4 (j / 2) + i.
constexpr int input_of(const PointLayout& layout, int line, int j) {
  if (layout.scale_inputs == 32) return 8 * j + line;
  return line / 4 * 16 + j % 2 * 8 + j / 2 * 4 + line % 4;
}

// A table gives the sizes of 4 coordinates of a point of 8, 2 bits each, or of 2 of a point of 4, in 4 bits
// each. Bits that sizes do not take, or that others take, become signs, and a second table says what the
// lower 6 bits of such a byte mean. Each byte merged so is two lines: of points of 8, sizes 0 and 2, and
// after a shift 1 and 3, in the first and the second of the second tables; of points of 4, both in the first
// one, the upper one after a shift.
struct MergedLine {
  int merge;       // one of four merged bytes, two in each half
  int table;       // the second table for it
  int shift;       // the merged byte is shifted so far to the right
  int where;       // bits that sizes have in the merged byte
  int size, sign;  // the lowest bit of its own size, and that of its sign, once it is shifted
};
constexpr MergedLine merged_line(const PointLayout& layout, int line) {
  const int half = line / 4, i = line % 4;
  if (layout.coordinates == 8) return {2 * half + i % 2, i / 2, 0, 0x33, 4 * (i / 2), 2 + i / 2};
  return {2 * half + i / 2, 0, 4 * (i % 2), 0x77, 0, 3};
}

// The matrix that makes a merged byte's signs out of the 7 of eight coordinates (`parities` of
// simd_avx512.h). With a scale for 16 inputs: those of both merged bytes of 4 coordinates, the second ones
// kSecondMergedShift bits further up.
constexpr int kSecondMergedShift = 2;
constexpr std::uint64_t sign_matrix(const PointLayout& layout, int part) {
  std::uint64_t matrix = 0;
  for (int of = 0; of < 8; ++of) {
    const MergedLine merged = merged_line(layout, of);
    const bool in_halves = layout.scale_inputs == 16;
    if ((in_halves ? of / 4 : merged.merge) != part) continue;
    const int bit = merged.sign + merged.shift + (in_halves ? merged.merge % 2 * kSecondMergedShift : 0);
    matrix |= std::uint64_t{of == 7 ? 0x7fu : 1u << of} << (8 * (7 - bit));
  }
  return matrix;
}

// The sizes of each point, of the first half of its coordinates and of the others; and the weights, 128
// larger.
struct PointTables {
  std::uint8_t sizes[2][512], weights[2][64];
};
const PointTables& point_tables(PackedFormat format);

// `rows` of a matrix, 16 or fewer, from `first_row` on into their strip.
void pack_points(const TensorView& view, PackedFormat format, std::int64_t first_row, std::int64_t rows,
                 std::uint8_t* strip);
// Weights of a block of output c over d and the panel's share: values, and the scales of 16 each.
void point_values(PackedFormat format, const std::byte* block, std::int64_t c, std::int8_t* values,
                  std::int8_t* scales);

}  // namespace pagoda::cpu
