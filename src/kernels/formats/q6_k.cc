// Q6_K: 16 groups of 16 6-bit numbers, each with an 8-bit scale, times the block's scale.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

// In the inner loop only i varies, so that it vectorises.
void read(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b + 208);
  std::memcpy(out.scales, b + 192, 16);
  for (int part = 0; part < 8; ++part) {
    const Bytes low = b + part / 4 * 64 + part % 2 * 32, high = b + 128 + part / 4 * 32;
    const int low_shift = part % 4 / 2 * 4, high_shift = part % 4 * 2;
    std::uint8_t* const numbers = out.numbers + 32 * part;
    for (int i = 0; i < 32; ++i)
      numbers[i] = static_cast<std::uint8_t>((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4);
  }
}

}  // namespace

const WeightFormat q6_k = {.decode = super_blocks<DType::q6_k, read, 16, 32, false>,
                           .int8_panels = PackedFormat::q6_k,
                           .super_block = read};

}  // namespace pagoda::formats
