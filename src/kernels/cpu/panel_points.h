#pragma once
// Panels of IQ2_XXS, IQ2_XS and IQ3_XXS as table points (has_points), in as many bits as in the file. A block
// is 256 inputs of 16 outputs: d in half precision; for IQ2_XS the scales per 16 inputs, two per byte, the
// first in the low bits; then for each 32 inputs one line of indices (IQ3_XXS: two), and one line of signs. A
// line has a 32-bit word per output. The word of signs has 7 bits for each 8 inputs, since the eighth sign
// makes the number of negative ones even; above these it has the scale of all 32 inputs or, for IQ2_XS, the
// ninth bits of the indices.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/linear_tile.h"
#include "kernels/weight_format.h"

namespace pagoda::cpu {

constexpr int kPointGroups = kSuperBlockInputs / 32;  // groups of 32 inputs per block

struct PointLayout {
  int coordinates;   // coordinates per point: 8 or 4
  int index_bits;    // 8 or 9
  int scale_inputs;  // inputs per scale: 32; or 16, with the scales as bytes after d

  // The number of lines of indices per 32 inputs.
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

// 32 inputs unpack to eight lines of 4 bytes per output, in two halves. With a scale per 32 inputs, line b
// has inputs 8 j + b, so a half is 4 coordinates of all its points. With a scale per 16, each half has one
// scale: line 4 h + i has inputs 16 h + 8 (j % 2) + 4 (j / 2) + i.
constexpr int input_of(const PointLayout& layout, int line, int j) {
  if (layout.scale_inputs == 32) return 8 * j + line;
  return line / 4 * 16 + j % 2 * 8 + j / 2 * 4 + line % 4;
}

// A table gives the magnitudes of 4 coordinates of a point of 8, in 2 bits each, or of 2 coordinates of a
// point of 4, in 4 bits each. Bits that the magnitudes leave free, or that belong to other magnitudes, are
// replaced by signs; a second table maps the lower 6 bits of such a merged byte to a weight. Each merged byte
// serves two lines: for points of 8, magnitudes 0 and 2 and, after a shift, 1 and 3, through the first and
// the second of the second tables; for points of 4, both through the first one, the upper one after a shift.
struct MergedLine {
  int merge;       // index of the merged byte, two in each half
  int table;       // index of the second table
  int shift;       // right shift of the merged byte
  int where;       // bits of magnitudes in the merged byte
  int size, sign;  // after the shift: the lowest bit of the magnitude, and the bit of the sign
};
constexpr MergedLine merged_line(const PointLayout& layout, int line) {
  const int half = line / 4, i = line % 4;
  if (layout.coordinates == 8) return {2 * half + i % 2, i / 2, 0, 0x33, 4 * (i / 2), 2 + i / 2};
  return {2 * half + i / 2, 0, 4 * (i % 2), 0x77, 0, 3};
}

// The matrix that computes a merged byte's signs from the 7 signs of eight coordinates (`parities` of
// simd_avx512.h). With a scale per 16 inputs: the signs of both merged bytes of 4 coordinates, the second
// ones kSecondMergedShift bits higher.
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

// The magnitudes of each point, for the first half of its coordinates and for the second; and the weights,
// offset by 128.
struct PointTables {
  std::uint8_t sizes[2][512], weights[2][64];
};
const PointTables& point_tables(PackedFormat format);

// Packs `rows` rows of a matrix, at most 16, from `first_row` on into their strip.
void pack_points(const TensorView& view, PackedFormat format, std::int64_t first_row, std::int64_t rows,
                 std::uint8_t* strip);
// The weights of a block of output c, divided by d and the panel's share: values, and the scales per 16 of
// them.
void point_values(PackedFormat format, const std::byte* block, std::int64_t c, std::int8_t* values,
                  std::int8_t* scales);

}  // namespace pagoda::cpu
