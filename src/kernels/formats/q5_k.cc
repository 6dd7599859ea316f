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

}  // namespace

const WeightFormat q5_k = {.decode = blocks<DType::q5_k, block>};

}  // namespace pagoda::formats
