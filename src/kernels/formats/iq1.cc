// IQ1_S and IQ1_M: 32 points of 8 numbers -1, 0 and 1, shifted up or down by an eighth; odd 3-bit scales,
// times the block's scale. IQ1_S has one scale and one shift direction per 32 numbers. IQ1_M has a scale per
// 16 numbers, a direction per 8, and keeps the block's scale in the upper bits of the other scales.
#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::formats {
namespace {

// Writes the numbers of point `p` of a block, as indices of kIq1Values.
void put_point(int p, std::uint16_t point, bool down, SuperBlock& out) {
  constexpr std::uint8_t kUp[4] = {1, 4, 7}, kDown[4] = {0, 2, 6};
  for (int i = 0; i < 8; ++i) {
    const int digit = point >> (2 * i) & 3;
    out.numbers[8 * p + i] = down ? kDown[digit] : kUp[digit];
  }
}

std::int8_t scale_of_3_bits(int bits) { return static_cast<std::int8_t>(2 * (bits & 7) + 1); }

// The high bits, scale and shift direction of 32 numbers of IQ1_S.
std::uint16_t shared_s(Bytes b, std::int64_t group) { return load<std::uint16_t>(b + 34 + 2 * group); }

void read_s(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b);
  for (int g = 0; g < 8; ++g) {
    const int high = shared_s(b, g);
    out.scales[2 * g] = out.scales[2 * g + 1] = scale_of_3_bits(high >> 12);
    for (int p = 0; p < 4; ++p)
      put_point(4 * g + p, kIq1Grid[b[2 + 4 * g + p] | (high >> (3 * p) & 7) << 8], (high & 0x8000) != 0,
                out);
  }
}

// The step of 8-bit panels, one per 32 numbers.
WeightStep step_s(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq1_s).block_bytes;
  return WeightStep::symmetric(kIqShare * load_half(b) *
                               static_cast<float>(scale_of_3_bits(shared_s(b, group % 8) >> 12)));
}

void read_m(Bytes b, SuperBlock& out) {
  const Bytes high = b + 32, scales = b + 48;
  out.d = 0;
  for (int i = 0; i < 4; ++i) out.d |= static_cast<std::uint16_t>((scales[2 * i + 1] >> 4) << (4 * i));
  for (int g = 0; g < 16; ++g)
    out.scales[g] = scale_of_3_bits(load<std::uint16_t>(scales + g / 4 * 2) >> (3 * (g % 4)));
  for (int p = 0; p < 32; ++p) {
    const int more = high[p / 2] >> (4 * (p % 2));
    put_point(p, kIq1Grid[b[p] | (more & 7) << 8], (more & 8) != 0, out);
  }
}

template <DType kType, void (*kRead)(Bytes block, SuperBlock& out)>
constexpr auto format = valued_format<kType, PackedFormat::iq1, kRead, 16, kIq1Values, kIqShare>;

}  // namespace

const WeightFormat iq1_s = format<DType::iq1_s, read_s>(step_s);
const WeightFormat iq1_m = format<DType::iq1_m, read_m>(nullptr);

}  // namespace pagoda::formats
