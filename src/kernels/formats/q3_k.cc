// Q3_K: 16 groups of 16 numbers of 3 bits, less 4, each with a scale of 6 bits, less 32, times the block's.
// The third bits lie apart, and so do the upper two bits of the scales.
#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

void block(Bytes b, float* out) {
  const Bytes high = b, low = b + 32, scales = b + 96;
  const float d = load_half(b + 108);
  for (int i = 0; i < 256; ++i) {
    const int g = i / 16;
    const int scale = (scales[g % 8] >> (g / 8 * 4) & 15) | (scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4;
    const int value = (low[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) | (high[i % 32] >> (i / 32) & 1)
                                                                                   << 2;
    out[i] = d * static_cast<float>(scale - 32) * static_cast<float>(value - 4);
  }
}

// Scale times number is a whole number of -124..128.
WeightStep step(Bytes row, std::int64_t group) {
  return WeightStep::symmetric(-load_half(row + group / 8 * dtype_info(DType::q3_k).block_bytes + 108));
}

}  // namespace

const WeightFormat q3_k = {.decode = blocks<DType::q3_k, block>, .step = step};

}  // namespace pagoda::formats
