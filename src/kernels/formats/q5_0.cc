// Q5_0: a half-precision scale, 32 fifth bits and 32 4-bit numbers, minus 16.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const float d = load_half(b);
  const auto high = load<std::uint32_t>(b + 2);
  for (int i = 0; i < 16; ++i) {
    const int low = (b[6 + i] & 15) | static_cast<int>((high >> i) & 1) << 4;
    const int up = (b[6 + i] >> 4) | static_cast<int>((high >> (i + 16)) & 1) << 4;
    out[i] = d * static_cast<float>(low - 16);
    out[i + 16] = d * static_cast<float>(up - 16);
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  return WeightStep::symmetric(load_half(row + group * dtype_info(DType::q5_0).block_bytes));
}

void numbers(Bytes row, std::int64_t group, std::uint8_t* out) {
  const Bytes b = row + group * dtype_info(DType::q5_0).block_bytes;
  const auto high = load<std::uint32_t>(b + 2);
  split_nibbles(b + 6, out);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<std::uint8_t>(out[i] | (high >> i & 1) << 4);
}

}  // namespace

const WeightFormat q5_0 = {
    .decode = blocks<DType::q5_0, block>, .int8_panels = PackedFormat::q5s, .numbers = numbers, .step = step};

}  // namespace pagoda::formats
