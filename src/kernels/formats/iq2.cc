// IQ2_XXS, IQ2_XS and IQ2_S: 32 points of 8 sizes (8, 25 or 43), a sign for each number, and scales of 4 bits
// and a half for 32 or 16 numbers, times a quarter of the block's. The first two store 7 signs; the eighth
// makes their number even.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

// The numbers of point `p` of a block as kIq2Values counts them: two bits of the size, then the sign.
void put_point(int p, std::uint16_t point, int signs, SuperBlock& out) {
  for (int i = 0; i < 8; ++i)
    out.numbers[8 * p + i] = static_cast<std::uint8_t>((point >> (2 * i) & 3) | (signs >> i & 1) << 2);
}

// A scale of 4 bits and a half, twice.
std::int8_t odd_scale(int bits) { return static_cast<std::int8_t>(2 * (bits & 15) + 1); }

void put_scales(Bytes scales, SuperBlock& out) {
  for (int g = 0; g < 16; ++g) out.scales[g] = odd_scale(scales[g / 2] >> (4 * (g % 2)));
}

void points_xxs(Bytes b, PointBlock& out) {
  out.d = load<std::uint16_t>(b);
  for (int g = 0; g < 8; ++g) {
    std::memcpy(out.points + 4 * g, b + 2 + 8 * g, 4);
    out.signs[g] = load<std::uint32_t>(b + 6 + 8 * g);
  }
}

void read_xxs(Bytes b, SuperBlock& out) {
  PointBlock block;
  points_xxs(b, block);
  out.d = block.d;
  for (int g = 0; g < 8; ++g)
    out.scales[2 * g] = out.scales[2 * g + 1] = odd_scale(static_cast<int>(block.signs[g] >> 28));
  for (int p = 0; p < 32; ++p)
    put_point(p, kIq2XxsGrid[block.points[p]], even_signs(block.signs[p / 4] >> (7 * (p % 4))), out);
}

// The step of 8-bit panels, which have one for 32 numbers.
WeightStep step_xxs(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq2_xxs).block_bytes;
  return WeightStep::symmetric(kIqShare * load_half(b) *
                               static_cast<float>(odd_scale(b[9 + group % 8 * 8] >> 4)));
}

void read_xs(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b);
  put_scales(b + 66, out);
  for (int p = 0; p < 32; ++p) {
    const auto number = load<std::uint16_t>(b + 2 + 2 * p);
    put_point(p, kIq2XsGrid[number & 511], even_signs(number >> 9), out);
  }
}

void read_s(Bytes b, SuperBlock& out) {
  const Bytes signs = b + 34, high = b + 66;
  out.d = load<std::uint16_t>(b);
  put_scales(b + 74, out);
  for (int p = 0; p < 32; ++p)
    put_point(p, kIq2SGrid[b[2 + p] | (high[p / 4] >> (2 * (p % 4)) & 3) << 8], signs[p], out);
}

template <DType kType, void (*kRead)(Bytes block, SuperBlock& out)>
constexpr auto format = valued_format<kType, PackedFormat::iq2, kRead, 16, kIq2Values, kIqShare>;

constexpr WeightFormat of_xxs() {
  WeightFormat out = format<DType::iq2_xxs, read_xxs>(step_xxs);
  out.point_panels = PackedFormat::iq2_xxs;
  out.points = points_xxs;
  return out;
}

}  // namespace

const WeightFormat iq2_xxs = of_xxs();
const WeightFormat iq2_xs = format<DType::iq2_xs, read_xs>(nullptr);
const WeightFormat iq2_s = format<DType::iq2_s, read_s>(nullptr);

}  // namespace pagoda::formats
