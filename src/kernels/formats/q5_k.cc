// Q5_K: as Q4_K, with a fifth bit of each number.
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
      const int byte = b[48 + (j / 2) * 32 + i];
      const int value = (j % 2 == 0 ? byte & 15 : byte >> 4) | ((b[16 + i] >> j) & 1) << 4;
      out[j * 32 + i] = ds * static_cast<float>(value) - m;
    }
  }
}

WeightStep step(Bytes row, std::int64_t group) {
  const Bytes b = row + group / 8 * dtype_info(DType::q5_k).block_bytes;
  int scale, min;
  scale_min(static_cast<int>(group % 8), b + 4, scale, min);
  return {.scale = load_half(b) * static_cast<float>(scale),
          .minimum = -load_half(b + 2) * static_cast<float>(min)};
}

}  // namespace

const WeightFormat q5_k = {
    .decode = blocks<DType::q5_k, block>, .int8_panels = PackedFormat::q8m, .step = step};

}  // namespace pagoda::formats
