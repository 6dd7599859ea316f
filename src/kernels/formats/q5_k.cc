// Q5_K: as Q4_K, with a fifth bit per number.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void read(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b);
  out.dmin = load<std::uint16_t>(b + 2);
  scales_and_minima(b + 4, out);
  const Bytes high = b + 16;
  for (int pair = 0; pair < 4; ++pair) {
    const Bytes bytes = b + 48 + 32 * pair;
    std::uint8_t* const numbers = out.numbers + 64 * pair;
    for (int i = 0; i < 32; ++i)
      numbers[i] = static_cast<std::uint8_t>((bytes[i] & 15) | (high[i] >> (2 * pair) & 1) << 4);
    for (int i = 0; i < 32; ++i)
      numbers[32 + i] = static_cast<std::uint8_t>(bytes[i] >> 4 | (high[i] >> (2 * pair + 1) & 1) << 4);
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::q5_k).block_bytes;
  int scale, min;
  scale_min(static_cast<int>(group % 8), b + 4, scale, min);
  return {.scale = load_half(b) * static_cast<float>(scale),
          .minimum = -load_half(b + 2) * static_cast<float>(min)};
}

}  // namespace

const WeightFormat q5_k = {.decode = super_blocks<DType::q5_k, read, 32, 0, true>,
                           .int8_panels = PackedFormat::q5_k,
                           .super_block = read,
                           .step = step};

}  // namespace pagoda::formats
