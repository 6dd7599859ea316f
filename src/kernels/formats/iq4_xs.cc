// IQ4_XS: 8 groups of 32 numbers as in IQ4_NL, each with a 6-bit scale minus 32, times the block's scale.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void read(Bytes b, SuperBlock& out) {
  const auto high = load<std::uint16_t>(b + 2);
  out.d = load<std::uint16_t>(b);
  for (int g = 0; g < 8; ++g) {
    const int scale = (b[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (2 * g) & 3) << 4;
    out.scales[g] = static_cast<std::int8_t>(scale - 32);
    split_nibbles(b + 8 + 16 * g, out.numbers + 32 * g);
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  SuperBlock numbers;
  read(row + group / 8 * dtype_info(DType::iq4_xs).block_bytes, numbers);
  return WeightStep::symmetric(half_to_float(numbers.d) * static_cast<float>(numbers.scales[group % 8]));
}

}  // namespace

const WeightFormat iq4_xs = valued_format<DType::iq4_xs, PackedFormat::iq4_xs, read, 32, kIq4Values>(step);

}  // namespace pagoda::formats
