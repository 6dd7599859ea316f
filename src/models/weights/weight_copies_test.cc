// Goal: a copy in another order or type means what is stored, to the last bit where its type can hold that.
#include "models/weights/weight_copies.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/dequantize.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

std::vector<float> values_of(const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.rows() * view.columns()));
  for (std::int64_t row = 0; row < view.rows(); ++row)
    dequantize_row(view, row, values.data() + row * view.columns());
  return values;
}

// Every other column of [in, out], with a scale for 32 rows and 128 columns.
TEST(WeightCopies, FloatsOf8BitsStayWhatTheyAreWhenTransposed) {
  constexpr std::int64_t kIn = 96, kOut = 160;
  std::vector<std::byte> stored = random_weights(1, DType::fp8, kIn * kOut);
  for (std::int64_t group = 0; group < kIn * kOut / 32; ++group) {
    const auto scale = static_cast<float>(1 + group / (kOut / 32) / 32 * 10 + group % (kOut / 32) / 4);
    std::memcpy(stored.data() + 36 * group, &scale, sizeof scale);
  }
  const TensorView view = {DType::fp8, {kIn, kOut}, stored.data()};
  for (const std::int64_t step : {1, 2}) {
    const Range range = {3, 70};
    std::vector<std::byte> kept, widened;
    transpose_float8(view, range, kept, step);
    transpose(view, range, widened, step);
    ASSERT_EQ(std::ssize(kept), dtype_bytes(DType::fp8, range.count * kIn));
    std::vector<float> wanted(static_cast<std::size_t>(range.count * kIn));
    std::memcpy(wanted.data(), widened.data(), widened.size());
    EXPECT_EQ(values_of({DType::fp8, {range.count, kIn}, kept.data()}), wanted);
  }
}

TEST(WeightCopies, FactorsBecomeThoseOfScaledFloats) {
  constexpr std::int64_t kRows = 5, kColumns = 192;
  std::vector<std::byte> stored = random_weights(2, DType::nvfp4, kRows * kColumns);
  // No number, which is zero; and a sign, which is none.
  stored[0] = std::byte{0x7f}, stored[1] = std::byte{0x83};
  const TensorView view = {DType::nvfp4, {kRows, kColumns}, stored.data()};
  std::vector<std::byte> copy;
  copy_scaled(view, 0.75f, copy);
  std::vector<float> wanted = values_of(view);
  for (float& value : wanted) value *= 0.75f;
  EXPECT_EQ(values_of({DType::nvfp4_scaled, {kRows, kColumns}, copy.data()}), wanted);
}

}  // namespace
}  // namespace pagoda
