// IQ4_XS: 8 groups of 32 numbers as IQ4_NL has them, each with a scale of 6 bits, less 32, times the block's.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

float scale_of(Bytes b, int g) {
  const auto high = load<std::uint16_t>(b + 2);
  const int scale = (b[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (2 * g) & 3) << 4;
  return load_half(b) * static_cast<float>(scale - 32);
}

void block(Bytes b, float* out) {
  for (int g = 0; g < 8; ++g) {
    const float dg = scale_of(b, g);
    const Bytes numbers = b + 8 + 16 * g;
    for (int i = 0; i < 16; ++i) {
      out[32 * g + i] = dg * static_cast<float>(kIq4Values[numbers[i] & 15]);
      out[32 * g + i + 16] = dg * static_cast<float>(kIq4Values[numbers[i] >> 4]);
    }
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::iq4_xs).block_bytes;
  return WeightStep::symmetric(scale_of(b, static_cast<int>(group % 8)));
}

}  // namespace

const WeightFormat iq4_xs = {.decode = blocks<DType::iq4_xs, block>, .step = step};

}  // namespace pagoda::formats
