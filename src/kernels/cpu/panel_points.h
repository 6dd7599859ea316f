#pragma once
// Panels of IQ2_XXS as points of a table of 256 (has_points), in as many bits as the file has: 256 inputs of
// 16 outputs begin with d in half precision. A line is a word of 32 bits for each output. For 32 inputs there
// are a line of indices, a byte each, and one of signs and scales, as PointBlock has them. Input 8 j + b of
// the 32 is coordinate b of byte j's point. So what is looked up for one coordinate of a line's points is
// four inputs of each output side by side.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/linear_tile.h"
#include "kernels/weight_format.h"

namespace pagoda::cpu {

constexpr int kPoints = 256, kPointGroups = kSuperBlockInputs / 32;

constexpr std::int64_t indices_at(int group) {
  constexpr PackedFormat kFormat = PackedFormat::iq2_xxs;
  return scale_bytes(kFormat) + group * number_bytes(kFormat);
}
constexpr std::int64_t signs_at(int group) { return indices_at(group) + 64; }

// Four coordinates' sizes are a byte, 2 bits each, the lowest ones the first one's. With its sign a size
// becomes a weight so: the byte is shifted right, and bits other than `where` become those of a byte of
// signs, of which bit `sign` is the coordinate's. A table says what the lower 6 bits mean.
struct SizeField {
  int shift, where, sign;
};
inline constexpr SizeField kSizeFields[4] = {{0, 0x03, 2}, {0, 0x0c, 0}, {0, 0x30, 1}, {2, 0x30, 3}};

// The matrix that makes such a byte of signs out of 7 bits (`parities` of simd_avx512.h): of coordinates
// 4 * half to 4 * half + 3 of eight.
constexpr std::uint64_t sign_matrix(int half) {
  std::uint64_t matrix = 0;
  for (int i = 0; i < 4; ++i) {
    const int of = 4 * half + i;
    matrix |= std::uint64_t{of == 7 ? 0x7fu : 1u << of} << (8 * (7 - kSizeFields[i].sign));
  }
  return matrix;
}

// The bytes of coordinates 0 to 3 of each point, and of 4 to 7; and each field's weights, 128 larger.
struct PointTables {
  std::uint8_t sizes[2][kPoints], weights[4][64];
};
const PointTables& point_tables();

// `rows` of a matrix, 16 or fewer, from `first_row` on into their strip.
void pack_points(const TensorView& view, std::int64_t first_row, std::int64_t rows, std::uint8_t* strip);
// Weights of a block of output c over d and the panel's share: values, and the scales of 32 each.
void point_values(const std::byte* block, std::int64_t c, std::int8_t* values, std::int8_t* scales);

}  // namespace pagoda::cpu
