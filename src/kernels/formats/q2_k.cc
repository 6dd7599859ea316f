// Q2_K: 16 groups of 16 2-bit numbers, each with a 4-bit scale and minimum, times those of the block.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void read(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b + 80);
  out.dmin = load<std::uint16_t>(b + 82);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = static_cast<std::int8_t>(b[g] & 15);
    out.minima[g] = b[g] >> 4;
  }
  for (int part = 0; part < 8; ++part)
    for (int i = 0; i < 32; ++i) out.numbers[32 * part + i] = b[16 + part / 4 * 32 + i] >> (part % 4 * 2) & 3;
}

}  // namespace

const WeightFormat q2_k = {.decode = super_blocks<DType::q2_k, read, 16, 0, true>,
                           .int8_panels = PackedFormat::q2_k,
                           .super_block = read};

}  // namespace pagoda::formats
