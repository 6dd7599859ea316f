// Q6_K: 16 groups of 16 numbers of 6 bits, each with a scale of 8 bits times the block's.
#include <cstdlib>

#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

// The inner loop has nothing that changes but l, so that it becomes vectors.
void block(Bytes b, float* out) {
  const float d = load_half(b + 208);
  for (int group = 0; group < 16; ++group, out += 16) {
    const int half = group / 8, part = group % 8 / 2, begin = group % 2 * 16;
    const Bytes low = b + half * 64 + part % 2 * 32 + begin, high = b + 128 + half * 32 + begin;
    const int low_shift = part / 2 * 4, high_shift = 2 * part;
    const float unit = d * static_cast<float>(static_cast<std::int8_t>(b[192 + group]));
    for (int l = 0; l < 16; ++l) {
      const int value = (low[l] >> low_shift & 15) | (high[l] >> high_shift & 3) << 4;
      out[l] = unit * static_cast<float>(value - 32);
    }
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
