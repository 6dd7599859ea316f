// Q6_K: 16 groups of 16 numbers of 6 bits, each with a scale of 8 bits times the block's.
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

}  // namespace

const WeightFormat q6_k = {.decode = blocks<DType::q6_k, block>};

}  // namespace pagoda::formats
