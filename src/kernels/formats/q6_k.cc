// Q6_K: 16 groups of 16 numbers of 6 bits, each with a scale of 8 bits times the block's.
#include <cstdlib>

#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const Bytes low = b, high = b + 128, scales = b + 192;
  const float d = load_half(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, part = i % 128 / 32, l = i % 32;
    const int nibble = low[half * 64 + (part % 2) * 32 + l];
    const int value = (part < 2 ? nibble & 15 : nibble >> 4) | ((high[half * 32 + l] >> (2 * part)) & 3) << 4;
    const int scale = static_cast<std::int8_t>(scales[i / 16]);
    out[i] = d * static_cast<float>(scale) * static_cast<float>(value - 32);
  }
}

// A quarter of the larger of two scales: the numbers of that one are exact, the other's nearly.
WeightStep step(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::q6_k).block_bytes;
  const int first = static_cast<std::int8_t>(b[192 + group % 8 * 2]);
  const int second = static_cast<std::int8_t>(b[193 + group % 8 * 2]);
  const int larger = std::abs(first) >= std::abs(second) ? first : second;
  return WeightStep::symmetric(load_half(b + 208) * static_cast<float>(larger) * 0.25f);
}

}  // namespace

const WeightFormat q6_k = {.decode = blocks<DType::q6_k, block>, .step = step};

}  // namespace pagoda::formats
