// Goal: what is written means what was read, as nearly as the type can. Method: blocks that the gguf package
// made of the same values (tests/fixtures/make_quantize.py), and for the K types the error that remains.
#include "kernels/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "kernels/dequantize.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

std::vector<std::byte> quantized(DType type, const std::vector<float>& values) {
  const auto elements = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(dtype_bytes(type, elements)));
  quantize(type, values.data(), elements, bytes.data());
  return bytes;
}

std::vector<float> and_back(DType type, const std::vector<float>& values) {
  const std::vector<std::byte> bytes = quantized(type, values);
  std::vector<float> out(values.size());
  dequantize(type, bytes.data(), static_cast<std::int64_t>(out.size()), out.data());
  return out;
}

// The root of the mean squared error, by that of the values.
double lost_in_type(const std::vector<float>& values, const std::vector<float>& back) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(back[i]) - values[i];
    error += difference * difference;
    size += static_cast<double>(values[i]) * values[i];
  }
  return std::sqrt(error / size);
}

TEST(Quantize, AgreesWithGguf) {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/fixtures/quantize.bin", std::ios::binary);
  ASSERT_TRUE(file) << "tests/fixtures/quantize.bin is missing";
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::uint32_t count = 0;
  std::memcpy(&count, all.data(), 4);
  std::vector<float> values(count);
  std::memcpy(values.data(), all.data() + 4, 4 * std::size_t{count});
  std::size_t at = 4 + 4 * std::size_t{count};
  int types = 0;
  for (; at < all.size(); ++types) {
    const std::string name(all.data() + at);
    at += 8;
    const std::vector<std::byte> bytes = quantized(*parse_dtype(name), values);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(bytes[i], static_cast<std::byte>(all[at + i])) << name << " byte " << i;
    at += bytes.size();
  }
  EXPECT_EQ(types, 5);
}

TEST(Quantize, KTypesLoseAsLittleAsTheirBitsAllow) {
  const std::vector<float> values = random_floats(1, 256 * 200, 0.05f);
  EXPECT_LT(lost_in_type(values, and_back(DType::q6_k, values)), 0.018);
  EXPECT_LT(lost_in_type(values, and_back(DType::q4_k, values)), 0.075);
  std::vector<float> shifted = values;  // minima are for these
  for (float& value : shifted) value += 0.1f;
  EXPECT_LT(lost_in_type(shifted, and_back(DType::q4_k, shifted)), 0.05);
}

TEST(Quantize, AnyFiniteValuesAreABlock) {
  for (const DType type : weight_types()) {
    if (!can_quantize(type)) continue;
    SCOPED_TRACE(std::string(dtype_info(type).name));
    EXPECT_EQ(and_back(type, std::vector<float>(256, 0.0f)), std::vector<float>(256, 0.0f));
    for (const float size : {1e-42f, 1e-9f, 1.0f, 3e4f}) {
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> values = random_floats(static_cast<std::uint64_t>(kind), 512, size);
        if (kind == 1) std::ranges::fill(values, size);
        if (kind == 2) std::ranges::fill(values, -size);
        if (kind == 3) std::fill(values.begin() + 1, values.end(), 0.0f);
        const std::vector<float> back = and_back(type, values);
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_TRUE(std::isfinite(back[i]));
          // Below half precision's least scale nothing is kept, and nothing is made up.
          ASSERT_LE(std::fabs(back[i]), 2.5f * size + 1e-5f) << "element " << i << " of " << size;
        }
        if (size >= 1 && kind != 0) EXPECT_LT(lost_in_type(values, back), 0.04) << size << " kind " << kind;
      }
    }
  }
}

}  // namespace
}  // namespace pagoda
