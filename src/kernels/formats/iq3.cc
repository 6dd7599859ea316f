// IQ3_XXS and IQ3_S: 64 points of 4 magnitudes, a sign per number, and a scale of 4 bits plus a half per 32
// numbers, times the block's scale. The magnitudes are 4 to 62, for IQ3_S the odd numbers up to 15. IQ3_XXS
// stores 7 of each 8 signs; the eighth makes the number of negative ones even.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

void points_xxs(Bytes b, PointBlock& out) {
  out.d = load<std::uint16_t>(b);
  for (int p = 0; p < 64; ++p) out.points[p] = b[2 + p];
  for (int i = 0; i < 32; ++i) {
    const auto word = load<std::uint32_t>(b + 66 + i / 4 * 4);
    out.signs[i] = even_signs(word >> (i % 4 * 7));
    out.scales[i / 2] = static_cast<std::uint8_t>(word >> 28);
  }
}

// The steps of 8-bit panels.
WeightStep step_xxs(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq3_xxs).block_bytes;
  const auto scale = odd_scale(load<std::uint32_t>(b + 66 + group % 8 * 4) >> 28);
  return WeightStep::symmetric(kIq3XxsShare * load_half(b) * static_cast<float>(scale));
}

void points_s(Bytes b, PointBlock& out) {
  const Bytes high = b + 66, signs = b + 74, scales = b + 106;
  out.d = load<std::uint16_t>(b);
  std::uint8_t of_32[8];
  split_scales<4>(scales, of_32);
  for (int g = 0; g < 16; ++g) out.scales[g] = of_32[g / 2];
  for (int p = 0; p < 64; ++p)
    out.points[p] = static_cast<std::uint16_t>(b[2 + p] | (high[p / 8] >> (p % 8) & 1) << 8);
  std::memcpy(out.signs, signs, sizeof out.signs);
}

// The numbers of a block as indices of kIq3XxsValues or kIq3SValues: three bits of magnitude, then the sign.
template <void (*kPoints)(Bytes block, PointBlock& out), const auto& kGrid>
void read(Bytes b, SuperBlock& out) {
  PointBlock block;
  kPoints(b, block);
  out.d = block.d;
  for (int g = 0; g < 8; ++g) out.scales[g] = odd_scale(block.scales[2 * g]);
  for (int i = 0; i < kSuperBlockInputs; ++i)
    out.numbers[i] = static_cast<std::uint8_t>((kGrid[block.points[i / 4]] >> (4 * (i % 4)) & 7) |
                                               (block.signs[i / 8] >> (i % 8) & 1) << 3);
}

constexpr auto read_s = read<points_s, kIq3SGrid>;

// Evenly spaced: the odd numbers of -15 to 15.
NibbleGroup nibbles_s(Bytes row, std::int64_t group) {
  SuperBlock b;
  read_s(row + group / 8 * dtype_info(DType::iq3_s).block_bytes, b);
  const auto g = static_cast<int>(group % 8);
  const float scale = half_to_float(b.d) * static_cast<float>(b.scales[g]);
  return nibbles_of(2 * scale, -15 * scale,
                    [&](int i) { return (kIq3SValues[b.numbers[32 * g + i]] + 15) / 2; });
}

constexpr WeightFormat of_xxs() {
  WeightFormat out = valued_format<DType::iq3_xxs, PackedFormat::iq3_xxs, read<points_xxs, kIq3XxsGrid>, 32,
                                   kIq3XxsValues, kIq3XxsShare>(step_xxs);
  out.point_panels = PackedFormat::iq3_xxs_points;
  out.points = points_xxs;
  return out;
}

constexpr WeightFormat of_s() {
  WeightFormat out = valued_format<DType::iq3_s, PackedFormat::iq3_s, read_s, 32, kIq3SValues>(nullptr);
  out.nibbles = nibbles_s;
  return out;
}

}  // namespace

const WeightFormat iq3_xxs = of_xxs();
const WeightFormat iq3_s = of_s();

}  // namespace pagoda::formats
