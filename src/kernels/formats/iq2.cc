// IQ2_XXS, IQ2_XS and IQ2_S: 32 points of 8 magnitudes (8, 25 or 43), a sign per number, and scales of 4 bits
// plus a half per 32 or 16 numbers, times a quarter of the block's scale. The first two types store 7 of each
// 8 signs; the eighth makes the number of negative ones even.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

void points_xxs(Bytes b, PointBlock& out) {
  out.d = load<std::uint16_t>(b);
  for (int p = 0; p < 32; ++p) {
    const auto signs = load<std::uint32_t>(b + 6 + p / 4 * 8);
    out.points[p] = b[2 + p / 4 * 8 + p % 4];
    out.signs[p] = even_signs(signs >> (p % 4 * 7));
    out.scales[p / 2] = static_cast<std::uint8_t>(signs >> 28);
  }
}

// The step of 8-bit panels, one per 32 numbers.
WeightStep step_xxs(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq2_xxs).block_bytes;
  return WeightStep::symmetric(kIqShare * load_half(b) *
                               static_cast<float>(odd_scale(b[9 + group % 8 * 8] >> 4)));
}

void points_xs(Bytes b, PointBlock& out) {
  out.d = load<std::uint16_t>(b);
  split_scales<8>(b + 66, out.scales);
  for (int p = 0; p < 32; ++p) {
    const auto number = load<std::uint16_t>(b + 2 + 2 * p);
    out.points[p] = number & 511;
    out.signs[p] = even_signs(number >> 9);
  }
}

void points_s(Bytes b, PointBlock& out) {
  const Bytes signs = b + 34, high = b + 66;
  out.d = load<std::uint16_t>(b);
  split_scales<8>(b + 74, out.scales);
  for (int p = 0; p < 32; ++p) {
    out.points[p] = static_cast<std::uint16_t>(b[2 + p] | (high[p / 4] >> (2 * (p % 4)) & 3) << 8);
    out.signs[p] = signs[p];
  }
}

// The numbers of a block as indices of kIq2Values: two bits of magnitude, then the sign.
template <void (*kPoints)(Bytes block, PointBlock& out), const auto& kGrid>
void read(Bytes b, SuperBlock& out) {
  PointBlock block;
  kPoints(b, block);
  out.d = block.d;
  for (int g = 0; g < 16; ++g) out.scales[g] = odd_scale(block.scales[g]);
  for (int i = 0; i < kSuperBlockInputs; ++i)
    out.numbers[i] = static_cast<std::uint8_t>((kGrid[block.points[i / 8]] >> (2 * (i % 8)) & 3) |
                                               (block.signs[i / 8] >> (i % 8) & 1) << 2);
}

template <DType kType, void (*kPoints)(Bytes block, PointBlock& out), const auto& kGrid>
constexpr WeightFormat format(WeightStep (*step)(Bytes row, std::int64_t group)) {
  return valued_format<kType, PackedFormat::iq2, read<kPoints, kGrid>, 16, kIq2Values, kIqShare>(step);
}

constexpr WeightFormat of_xxs() {
  WeightFormat out = format<DType::iq2_xxs, points_xxs, kIq2XxsGrid>(step_xxs);
  out.point_panels = PackedFormat::iq2_xxs_points;
  out.points = points_xxs;
  return out;
}

constexpr WeightFormat of_xs() {
  WeightFormat out = format<DType::iq2_xs, points_xs, kIq2XsGrid>(nullptr);
  out.point_panels = PackedFormat::iq2_xs_points;
  out.points = points_xs;
  return out;
}

}  // namespace

const WeightFormat iq2_xxs = of_xxs();
const WeightFormat iq2_xs = of_xs();
const WeightFormat iq2_s = format<DType::iq2_s, points_s, kIq2SGrid>(nullptr);

}  // namespace pagoda::formats
