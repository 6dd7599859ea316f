// Q4_1: a half-precision scale and minimum, and 32 4-bit numbers.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b), m = load_half(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

NibbleGroup nibbles(Bytes row, std::int64_t group) {
  const Bytes b = row + group * dtype_info(DType::q4_1).block_bytes;
  NibbleGroup out{.scale = load_half(b), .minimum = load_half(b + 2)};
  std::memcpy(out.nibbles, b + 4, sizeof out.nibbles);
  return out;
}

}  // namespace

const WeightFormat q4_1 = {
    .decode = blocks<DType::q4_1, block>, .int8_panels = PackedFormat::q4, .nibbles = nibbles};

}  // namespace pagoda::formats
