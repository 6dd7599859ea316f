// Q5_1: a half-precision scale and minimum, 32 fifth bits and 32 4-bit numbers.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b), m = load_half(b + 2);
  const auto high = load<std::uint32_t>(b + 4);
  for (int i = 0; i < 16; ++i) {
    const int low = (b[8 + i] & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int up = (b[8 + i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = d * static_cast<float>(low) + m;
    out[i + 16] = d * static_cast<float>(up) + m;
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  const Bytes b = row + group * dtype_info(DType::q5_1).block_bytes;
  return {.scale = load_half(b), .minimum = load_half(b + 2)};
}

void numbers(Bytes row, std::int64_t group, std::uint8_t* out) {
  const Bytes b = row + group * dtype_info(DType::q5_1).block_bytes;
  const auto high = load<std::uint32_t>(b + 4);
  split_nibbles(b + 8, out);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<std::uint8_t>(out[i] | (high >> i & 1) << 4);
}

}  // namespace

const WeightFormat q5_1 = {
    .decode = blocks<DType::q5_1, block>, .int8_panels = PackedFormat::q5m, .numbers = numbers, .step = step};

}  // namespace pagoda::formats
