// Q3_K: 16 groups of 16 3-bit numbers minus 4, each with a 6-bit scale minus 32, times the block's scale. The
// third bits are stored separately, and so are the upper two bits of the scales.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void read(Bytes b, SuperBlock& out) {
  const Bytes high = b, low = b + 32, scales = b + 96;
  out.d = load<std::uint16_t>(b + 108);
  for (int g = 0; g < 16; ++g)
    out.scales[g] = static_cast<std::int8_t>(
        ((scales[g % 8] >> (g / 8 * 4) & 15) | (scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32);
  for (int part = 0; part < 8; ++part)
    for (int i = 0; i < 32; ++i)
      out.numbers[32 * part + i] = static_cast<std::uint8_t>((low[part / 4 * 32 + i] >> (part % 4 * 2) & 3) |
                                                             (high[i] >> part & 1) << 2);
}

}  // namespace

const WeightFormat q3_k = {.decode = super_blocks<DType::q3_k, read, 16, 4, false>,
                           .int8_panels = PackedFormat::q3_k,
                           .super_block = read};

}  // namespace pagoda::formats
