// IQ3_XXS and IQ3_S: 64 points of 4 sizes, a sign for each number, and a scale of 4 bits and a half for 32
// numbers, times the block's. The sizes are 4 to 62, of IQ3_S the odd numbers up to 15. IQ3_XXS stores 7 of 8
// signs; the eighth makes their number even.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

// The numbers of point `p` of a block as kIq3XxsValues and kIq3SValues count them: three bits of the size,
// then the sign. signs: of its 4 coordinates.
void put_point(int p, std::uint16_t point, int signs, SuperBlock& out) {
  for (int i = 0; i < 4; ++i)
    out.numbers[4 * p + i] = static_cast<std::uint8_t>((point >> (4 * i) & 7) | (signs >> i & 1) << 3);
}

// A scale of 4 bits and a half, twice.
std::int8_t odd_scale(std::uint32_t bits) { return static_cast<std::int8_t>(2 * (bits & 15) + 1); }

void read_xxs(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b);
  for (int g = 0; g < 8; ++g) {
    const auto word = load<std::uint32_t>(b + 66 + 4 * g);
    out.scales[g] = odd_scale(word >> 28);
    for (int p = 0; p < 8; ++p)
      put_point(8 * g + p, kIq3XxsGrid[b[2 + 8 * g + p]], even_signs(word >> (p / 2 * 7)) >> (p % 2 * 4),
                out);
  }
}

// The steps of 8-bit panels.
WeightStep step_xxs(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq3_xxs).block_bytes;
  const auto scale = odd_scale(load<std::uint32_t>(b + 66 + group % 8 * 4) >> 28);
  return WeightStep::symmetric(kIq3XxsShare * load_half(b) * static_cast<float>(scale));
}

void read_s(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b);
  for (int g = 0; g < 8; ++g) out.scales[g] = odd_scale(b[106 + g / 2] >> (4 * (g % 2)));
  for (int p = 0; p < 64; ++p) {
    const int index = b[2 + p] | (b[66 + p / 8] >> (p % 8) & 1) << 8;
    put_point(p, kIq3SGrid[index], b[74 + p / 2] >> (p % 2 * 4), out);
  }
}

// Evenly spaced: the odd numbers of -15 to 15.
NibbleGroup nibbles_s(Bytes row, std::int64_t group) {
  SuperBlock b;
  read_s(row + group / 8 * dtype_info(DType::iq3_s).block_bytes, b);
  const auto g = static_cast<int>(group % 8);
  const float scale = half_to_float(b.d) * static_cast<float>(b.scales[g]);
  return nibbles_of(2 * scale, -15 * scale,
                    [&](int i) { return (kIq3SValues[b.numbers[32 * g + i]] + 15) / 2; });
}

constexpr WeightFormat of_s() {
  WeightFormat format = valued_format<DType::iq3_s, PackedFormat::iq3_s, read_s, 32, kIq3SValues>(nullptr);
  format.nibbles = nibbles_s;
  return format;
}

}  // namespace

const WeightFormat iq3_xxs =
    valued_format<DType::iq3_xxs, PackedFormat::iq3_xxs, read_xxs, 32, kIq3XxsValues, kIq3XxsShare>(step_xxs);
const WeightFormat iq3_s = of_s();

}  // namespace pagoda::formats
