#include "kernels/reference/quantize.h"

#include <gtest/gtest.h>

#include <random>

namespace pagoda::reference {
namespace {

// In 8-bit units. With steps below one, the start reaches less than from one base to the next.
TEST(NibbleStep, EveryWeightIsCloseToTheFiles) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (int i = 0; i < 200'000; ++i) {
    const float largest = std::exp2(20 * unit(random));
    // Both ends within [-largest, largest], some groups far smaller than the row's largest.
    const float size = largest * std::pow(std::fabs(unit(random)), i % 4 * 2.0f);
    const float minimum = size * unit(random), scale = (size * unit(random) - minimum) / 15;
    const NibbleStep step = nibble_step(scale, minimum, largest);
    const float slope = std::fabs(scale) * 127 / largest;
    for (int n = 0; n < 16; ++n) {
      const float exact = (scale * static_cast<float>(n) + minimum) * 127 / largest;
      ASSERT_NEAR(static_cast<float>(nibble_weight(n, step)), exact, slope >= 1 ? 0.6f : 1.1f)
          << scale << " * " << n << " + " << minimum << " of " << largest;
    }
  }
}

TEST(NibbleStep, EveryWeightFitsIntoAByte) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0,          -0.0f,     1e-38f,     -1e-30f, 1,     -1,   1.0f / 15,
                          -1.0f / 15, 2.0f / 15, -2.0f / 15, 1.1f,    -7.5f, 16,   -16,
                          1e9f,       -1e9f,     3e38f,      -3e38f,  inf,   -inf, nan};
  for (const float scale : values) {
    for (const float minimum : values) {
      for (const float largest : values) {
        const NibbleStep step = nibble_step(scale, minimum, largest);
        for (int n = 0; n < 16; ++n) {
          const int weight = nibble_weight(n, step);
          ASSERT_TRUE(-128 <= weight && weight <= 127) << scale << " " << minimum << " of " << largest;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::reference
