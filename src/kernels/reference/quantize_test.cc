#include "kernels/reference/quantize.h"

#include <gtest/gtest.h>

#include "kernels/testing.h"

namespace pagoda::reference {
namespace {

// Weights of 8-bit panels are the file's own numbers but for the rounding of scales to half precision. Types
// with scales for 16 numbers, and codes of floats, come as near as 8 bits allow.
TEST(WeightStep, KeepsWhatTheFileSays) {
  for (const DType dtype : weight_types()) {
    if (!is_quantized(dtype)) continue;
    const PackedFormat own = weight_format(dtype).int8_panels;
    const bool near = dtype == DType::q6_k || dtype == DType::q2_k || dtype == DType::q3_k ||
                      dtype == DType::iq1_m || dtype == DType::iq2_xs || dtype == DType::iq2_s ||
                      dtype == DType::nvfp4 || dtype == DType::nvfp4_scaled || dtype == DType::nf4 ||
                      dtype == DType::fp8;
    for (const PackedFormat format : {own, PackedFormat::q8m}) {
      if (keeps_file_numbers(format)) continue;
      constexpr std::int64_t kGroups = 64;
      const std::vector<std::byte> bytes = random_weights(1, dtype, 32 * kGroups);
      std::vector<float> row(32 * kGroups);
      dequantize(dtype, bytes.data(), 32 * kGroups, row.data());
      for (std::int64_t g = 0; g < kGroups; ++g) {
        const std::span x = std::span(row).subspan(static_cast<std::size_t>(32 * g), 32);
        const WeightStep step = weight_step(format, dtype, bytes.data(), g, x);
        const float inverse = weight_inverse(step), size = std::fabs(step.scale);
        for (const float w : x) {
          const float u = weight_byte(w, step, inverse);
          ASSERT_TRUE(0 <= u && u <= 255);
          ASSERT_NEAR(step.scale * u + step.minimum, w, (near ? 1.01f : 1e-4f) * size)
              << dtype_info(dtype).name << " panels " << static_cast<int>(format);
        }
      }
    }
  }
}

TEST(WeightStep, EveryWeightFitsIntoAByte) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0,   -0.0f, 1e-38f, -1e-30f, 1,      -1,  1.1f, 16,
                          -16, 1e9f,  -1e9f,  3e38f,   -3e38f, inf, -inf, nan};
  for (const float scale : values) {
    for (const float minimum : values) {
      for (const float w : values) {
        const WeightStep step = {scale, minimum};
        const float u = weight_byte(w, step, weight_inverse(step));
        ASSERT_TRUE(0 <= u && u <= 255) << w << " " << scale << " " << minimum;
      }
    }
  }
}

TEST(RowUnit, SharesKeepElevenBits) {
  for (const float size : {1e-40f, 3e-30f, 1e-6f, 0.7f, 1.0f, 65000.0f, 2e20f, 3e38f}) {
    const float unit = row_unit(size);
    const float share = size / unit;
    EXPECT_TRUE(1 <= share && share < 2) << size;
    EXPECT_NEAR(half_to_float(unit_share(size, unit)) * unit, size, size / 2048) << size;
  }
  EXPECT_EQ(row_unit(0), 1);
  EXPECT_FALSE(std::isfinite(row_unit(std::numeric_limits<float>::infinity())));
}

}  // namespace
}  // namespace pagoda::reference
