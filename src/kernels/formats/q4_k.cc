// Q4_K: 8 groups of 32 4-bit numbers, each with a 6-bit scale and minimum, times those of the block.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void read(Bytes b, SuperBlock& out) {
  out.d = load<std::uint16_t>(b);
  out.dmin = load<std::uint16_t>(b + 2);
  scales_and_minima(b + 4, out);
  for (int pair = 0; pair < 4; ++pair) {
    const Bytes bytes = b + 16 + 32 * pair;
    std::uint8_t* const numbers = out.numbers + 64 * pair;
    for (int i = 0; i < 32; ++i) numbers[i] = bytes[i] & 15;
    for (int i = 0; i < 32; ++i) numbers[32 + i] = bytes[i] >> 4;
  }
}

NibbleGroup nibbles(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::q4_k).block_bytes;
  const auto j = static_cast<int>(group % 8);
  int scale, min;
  scale_min(j, b + 4, scale, min);
  NibbleGroup out{.scale = load_half(b) * static_cast<float>(scale),
                  .minimum = -load_half(b + 2) * static_cast<float>(min)};
  const Bytes bytes = b + 16 + j / 2 * 32;
  for (int i = 0; i < 16; ++i) {
    const int low = bytes[i], high = bytes[16 + i];
    out.nibbles[i] =
        static_cast<std::uint8_t>(j % 2 == 0 ? (low & 15) | (high & 15) << 4 : low >> 4 | (high & 240));
  }
  return out;
}

}  // namespace

const WeightFormat q4_k = {.decode = super_blocks<DType::q4_k, read, 32, 0, true>,
                           .int8_panels = PackedFormat::q4_k,
                           .super_block = read,
                           .nibbles = nibbles};

}  // namespace pagoda::formats
