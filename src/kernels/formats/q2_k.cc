// Q2_K: 16 groups of 16 numbers of 2 bits, each with scale and minimum of 4 bits times those of the block.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const Bytes scales = b, numbers = b + 16;
  const float d = load_half(b + 80), dmin = load_half(b + 82);
  for (int i = 0; i < 256; ++i) {
    const int scale = scales[i / 16] & 15, min = scales[i / 16] >> 4;
    const int value = numbers[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    out[i] = d * static_cast<float>(scale) * static_cast<float>(value) - dmin * static_cast<float>(min);
  }
}

}  // namespace

const WeightFormat q2_k = {.decode = blocks<DType::q2_k, block>, .int8_panels = PackedFormat::q8m};

}  // namespace pagoda::formats
