// IQ1_S and IQ1_M: 32 points of 8 numbers -1, 0 and 1, moved up or down by an eighth; odd scales of 3 bits
// times the block's. IQ1_S has one scale and one direction for 32 numbers. IQ1_M has a scale for 16 numbers,
// a direction for 8, and keeps the block's scale in the upper bits of the others.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

constexpr float kShift = 0.125f;

// Number i of the point, plus 1.
int digit(std::uint16_t point, int i) { return point >> (2 * i) & 3; }

void put(std::uint16_t point, float scale, float shift, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(digit(point, i) - 1) + shift);
}

struct Group {  // 32 numbers of IQ1_S
  float scale, shift;
  std::uint16_t points[4];
};

Group group_of(Bytes b, int g) {
  const auto high = load<std::uint16_t>(b + 34 + 2 * g);
  Group group{.scale = load_half(b) * static_cast<float>(2 * (high >> 12 & 7) + 1),
              .shift = (high & 0x8000) != 0 ? -kShift : kShift,
              .points = {}};
  for (int p = 0; p < 4; ++p) group.points[p] = kIq1Grid[b[2 + 4 * g + p] | (high >> (3 * p) & 7) << 8];
  return group;
}

void block_s(Bytes b, float* out) {
  for (int g = 0; g < 8; ++g) {
    const Group group = group_of(b, g);
    for (int p = 0; p < 4; ++p) put(group.points[p], group.scale, group.shift, out + 32 * g + 8 * p);
  }
}

NibbleGroup nibbles_s(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq1_s).block_bytes;
  const Group g = group_of(b, static_cast<int>(group % 8));
  return nibbles_of(g.scale, g.scale * (g.shift - 1), [&](int i) { return digit(g.points[i / 8], i % 8); });
}

void block_m(Bytes b, float* out) {
  const Bytes high = b + 32, scales = b + 48;
  std::uint16_t d = 0;
  for (int i = 0; i < 4; ++i) d |= (scales[2 * i + 1] >> 4) << (4 * i);
  for (int p = 0; p < 32; ++p) {
    const int more = high[p / 2] >> (4 * (p % 2));
    const int scale = load<std::uint16_t>(scales + p / 8 * 2) >> (3 * (p / 2 % 4)) & 7;
    put(kIq1Grid[b[p] | (more & 7) << 8], half_to_float(d) * static_cast<float>(2 * scale + 1),
        (more & 8) != 0 ? -kShift : kShift, out + 8 * p);
  }
}

}  // namespace

const WeightFormat iq1_s = {
    .decode = blocks<DType::iq1_s, block_s>, .int8_panels = PackedFormat::q4, .nibbles = nibbles_s};
const WeightFormat iq1_m = {.decode = blocks<DType::iq1_m, block_m>};

}  // namespace pagoda::formats
