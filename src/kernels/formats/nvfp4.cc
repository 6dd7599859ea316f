// NVFP4: 4 groups of 16 4-bit floats as in MXFP4, each with an 8-bit float scale (4 exponent bits, 3 fraction
// bits, no sign). Values are kept doubled here, so the scale is halved.
#include <algorithm>
#include <cmath>

#include "kernels/formats/formats.h"

namespace pagoda::formats {
namespace {

float scale_of(Bytes b, int s) {
  constexpr int kNotANumber = 0x7f;
  if (b[s] == kNotANumber) return 0;
  const int exponent = b[s] >> 3 & 15, fraction = b[s] & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(fraction), -10)
                       : std::ldexp(static_cast<float>(8 + fraction), exponent - 11);
}

void block(Bytes b, float* out) {
  for (int s = 0; s < 4; ++s) {
    const float d = scale_of(b, s);
    for (int i = 0; i < 8; ++i) {
      const std::uint8_t byte = b[4 + 8 * s + i];
      out[16 * s + i] = d * static_cast<float>(kFp4Twice[byte & 15]);
      out[16 * s + i + 8] = d * static_cast<float>(kFp4Twice[byte >> 4]);
    }
  }
}

// 32 weights have two scales. The step is the larger scale divided by a whole number, so that its weights are
// exact. Of the divisors whose steps reach far enough, the one that fits the smaller scale best is chosen.
WeightStep step(Bytes row, std::int64_t group) {
  constexpr int kLargest = 12, kMostParts = 127 / kLargest;
  const Bytes b = row + group / 2 * dtype_info(DType::nvfp4).block_bytes;
  const auto first = static_cast<int>(group % 2 * 2);
  const auto [small, large] = std::minmax(scale_of(b, first), scale_of(b, first + 1));
  if (large == 0) return {};
  float best = kMostParts, least = 1;
  for (int parts = kMostParts; parts > 0; --parts) {
    const float steps = small / large * static_cast<float>(parts);
    const float error = std::min(0.5f, kLargest * std::fabs(steps - std::nearbyint(steps)));
    if (error / static_cast<float>(parts) >= least) continue;
    least = error / static_cast<float>(parts);
    best = static_cast<float>(parts);
  }
  return WeightStep::symmetric(large / best);
}

}  // namespace

const WeightFormat nvfp4 = {.decode = blocks<DType::nvfp4, block>, .step = step};

}  // namespace pagoda::formats
