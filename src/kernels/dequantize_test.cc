// Goal: every block format means what GGML means by it. Method: blocks and values made by the gguf
// package (tests/fixtures/make_dequantize.py), and the half formats over all their bit patterns.
#include "kernels/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "kernels/testing.h"
#include "kernels/weight_format.h"

namespace pagoda {
namespace {

TEST(Dequantize, AgreesWithGguf) {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/fixtures/dequantize.bin", std::ios::binary);
  ASSERT_TRUE(file) << "tests/fixtures/dequantize.bin is missing";
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::size_t at = 0;
  std::set<DType> seen;
  while (at < all.size()) {
    const std::string name(all.data() + at);
    std::uint32_t blocks = 0;
    std::memcpy(&blocks, all.data() + at + 8, 4);
    at += 12;
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    const DTypeInfo& info = dtype_info(*dtype);
    const std::size_t elements = static_cast<std::size_t>(info.block_elements) * blocks;
    std::vector<float> expected(elements), actual(elements);
    const auto* raw = reinterpret_cast<const std::byte*>(all.data() + at);
    at += static_cast<std::size_t>(info.block_bytes) * blocks;
    std::memcpy(expected.data(), all.data() + at, elements * 4);
    at += elements * 4;
    dequantize(*dtype, raw, static_cast<std::int64_t>(elements), actual.data());
    for (std::size_t i = 0; i < elements; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << name << " element " << i << ": " << actual[i] << " instead of " << expected[i];
    seen.insert(*dtype);
  }
  for (const DType dtype : weight_types()) {
    if (is_quantized(dtype) && dtype_info(dtype).gguf >= 0)
      EXPECT_TRUE(seen.contains(dtype)) << dtype_info(dtype).name;
  }
}

// Blocks that are of no file: scale * code + minimum and scale * code, to the last bit.
TEST(Dequantize, QuantisedFoldersBlocks) {
  for (const DType dtype : {DType::int4, DType::int8, DType::int8m}) {
    const std::vector<std::byte> block = random_weights(7, dtype, 32);
    std::vector<float> actual(32);
    dequantize(dtype, block.data(), 32, actual.data());
    float scale = 0, minimum = 0;
    std::memcpy(&scale, block.data(), 4);
    if (dtype != DType::int8) std::memcpy(&minimum, block.data() + 4, 4);
    const std::size_t header = dtype == DType::int8 ? 4 : 8;
    for (std::size_t i = 0; i < 32; ++i) {
      const auto byte = std::to_integer<std::uint8_t>(block[header + (dtype == DType::int4 ? i % 16 : i)]);
      const float code = dtype == DType::int8    ? static_cast<std::int8_t>(byte)
                         : dtype == DType::int8m ? byte
                         : i < 16                ? byte & 15
                                                 : byte >> 4;
      EXPECT_EQ(actual[i], scale * code + minimum) << i;
    }
  }
}

// No bytes make a decoder read beside its block or its tables (seen by the sanitizer builds), and the ways to
// the panels mean what it does.
TEST(Dequantize, AnyBytesAreABlock) {
  for (const DType dtype : weight_types()) {
    const DTypeInfo& info = dtype_info(dtype);
    const WeightFormat& format = weight_format(dtype);
    const std::int64_t elements = std::max(info.block_elements, 32);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(dtype_bytes(dtype, elements)));
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = seed == 0 ? 255 : static_cast<std::uint8_t>(random_bits(seed, 1, i));
      std::vector<float> values(static_cast<std::size_t>(elements));
      format.decode(bytes.data(), elements, values.data());
      for (std::int64_t group = 0; group < elements / 32; ++group) {
        if (format.step != nullptr) format.step(bytes.data(), group);
        if (format.nibbles == nullptr) continue;
        const NibbleGroup nibbles = format.nibbles(bytes.data(), group);
        for (int i = 0; i < 32; ++i) {
          const float value = values[static_cast<std::size_t>(32 * group + i)];
          const float number = static_cast<float>(nibbles.nibbles[i % 16] >> (i / 16 * 4) & 15);
          if (!(std::fabs(value) < 1e30f)) continue;
          // Scales and minima of random bits may be far apart, and what is small is lost beside what is
          // large.
          const float size = std::max(std::fabs(15 * nibbles.scale), std::fabs(nibbles.minimum));
          ASSERT_NEAR(nibbles.scale * number + nibbles.minimum, value, 1e-5f * size)
              << info.name << " element " << 32 * group + i;
        }
      }
    }
  }
}

TEST(Dequantize, HalfFormatsRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const float half = half_to_float(b), brain = bfloat16_to_float(b);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(half))));
    } else {
      ASSERT_EQ(float_to_half(half), b);
    }
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(brain))));
    } else {
      ASSERT_EQ(float_to_bfloat16(brain), b);
    }
  }
}

TEST(Dequantize, HalfFormatsRoundToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {  // between each two neighbouring finite halves
    const auto b = static_cast<std::uint16_t>(bits);
    const double low = half_to_float(b),
                 high = bits + 1 == 0x7c00 ? 65536.0 : half_to_float(static_cast<std::uint16_t>(b + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const std::uint16_t even = b % 2 == 0 ? b : static_cast<std::uint16_t>(b + 1);
    ASSERT_EQ(float_to_half(middle), even);
    ASSERT_EQ(float_to_half(std::nextafterf(middle, 0.0f)), b);
    ASSERT_EQ(float_to_half(std::nextafterf(middle, 1e9f)), b + 1);
    ASSERT_EQ(float_to_half(-middle), even | 0x8000);
  }
  EXPECT_EQ(float_to_bfloat16(1.00390625f), 0x3f80);  // a tie, to even
  EXPECT_EQ(float_to_bfloat16(1.01171875f), 0x3f82);
}

}  // namespace
}  // namespace pagoda
