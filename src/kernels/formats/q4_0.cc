// Q4_0: a half-precision scale and 32 4-bit numbers minus 8.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

NibbleGroup nibbles(Bytes row, std::int64_t group) {
  const Bytes b = row + group * dtype_info(DType::q4_0).block_bytes;
  NibbleGroup out{.scale = load_half(b)};
  out.minimum = -8.0f * out.scale;
  std::memcpy(out.nibbles, b + 2, sizeof out.nibbles);
  return out;
}

void numbers(Bytes row, std::int64_t group, std::uint8_t* out) {
  split_nibbles(row + group * dtype_info(DType::q4_0).block_bytes + 2, out);
}

}  // namespace

const WeightFormat q4_0 = {.decode = blocks<DType::q4_0, block>,
                           .int8_panels = PackedFormat::q4s,
                           .numbers = numbers,
                           .nibbles = nibbles};

}  // namespace pagoda::formats
