// Q4_K: 8 groups of 32 numbers of 4 bits, each with scale and minimum of 6 bits times those of the block.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b), dmin = load_half(b + 2);
  for (int j = 0; j < 8; ++j) {
    int scale, min;
    scale_min(j, b + 4, scale, min);
    const float ds = d * static_cast<float>(scale), m = dmin * static_cast<float>(min);
    for (int i = 0; i < 32; ++i) {
      const int byte = b[16 + (j / 2) * 32 + i];
      out[j * 32 + i] = ds * static_cast<float>(j % 2 == 0 ? byte & 15 : byte >> 4) - m;
    }
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

const WeightFormat q4_k = {
    .decode = blocks<DType::q4_k, block>, .int8_panels = PackedFormat::q4, .nibbles = nibbles};

}  // namespace pagoda::formats
