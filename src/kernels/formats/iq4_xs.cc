// IQ4_XS: 8 groups of 32 numbers as IQ4_NL has them, each with a scale of 6 bits, less 32, times the block's.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b);
  const auto high = load<std::uint16_t>(b + 2);
  for (int g = 0; g < 8; ++g) {
    const int scale = (b[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (2 * g) & 3) << 4;
    const float dg = d * static_cast<float>(scale - 32);
    const Bytes numbers = b + 8 + 16 * g;
    for (int i = 0; i < 16; ++i) {
      out[32 * g + i] = dg * static_cast<float>(kIq4Values[numbers[i] & 15]);
      out[32 * g + i + 16] = dg * static_cast<float>(kIq4Values[numbers[i] >> 4]);
    }
  }
}

}  // namespace

const WeightFormat iq4_xs = {.decode = blocks<DType::iq4_xs, block>};

}  // namespace pagoda::formats
