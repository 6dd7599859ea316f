// Goal: GPTQ's 2 and 3 bits are the numbers that its packer meant. Method: weights packed here as AutoGPTQ
// packs them, word by word.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "base/strings.h"
#include "kernels/dequantize.h"
#include "loader/quantized_parts.h"

namespace pagoda {
namespace {

// GPTQ's 3 bits: 32 codes to three words, of which the eleventh and the 22nd lie in two each. Packed as
// AutoGPTQ does it, word by word.
std::array<std::uint32_t, 3> three_words(const std::function<std::uint32_t(int)>& code) {
  std::array<std::uint32_t, 3> words{};
  for (int i = 0; i < 10; ++i) {
    words[0] |= code(i) << 3 * i;
    words[1] |= code(11 + i) << (3 * i + 1);
    words[2] |= code(22 + i) << (3 * i + 2);
  }
  words[0] |= code(10) << 30;
  words[1] |= code(10) >> 2 | code(21) << 31;
  words[2] |= code(21) >> 1;
  return words;
}

TEST(QuantizedTensors, OfGptqMayHaveTwoOrThreeBits) {
  constexpr int kRows = 32, kColumns = 64;  // two groups of 32
  for (const int bits : {2, 3}) {
    const std::uint32_t most = (1u << bits) - 1;
    const auto code = [&](int row, int column) {
      return static_cast<std::uint32_t>(row * 5 + column * 3) & most;
    };
    const auto zero = [&](int row, int group) { return static_cast<std::uint32_t>(row + group) & most; };
    std::string codes(static_cast<std::size_t>(kColumns * kRows * bits / 8), '\0'),
        zeros(static_cast<std::size_t>(2 * kRows * bits / 8), '\0');
    const auto put = [](std::string& to, int word, std::uint32_t value) {
      std::memcpy(to.data() + 4 * word, &value, 4);
    };
    const auto words_of = [&](const std::function<std::uint32_t(int)>& each) {
      if (bits == 3) {
        const auto three = three_words(each);
        return std::vector<std::uint32_t>(three.begin(), three.end());
      }
      std::vector<std::uint32_t> words(2);
      for (int i = 0; i < 32; ++i) words[static_cast<std::size_t>(i / 16)] |= each(i) << 2 * (i % 16);
      return words;
    };
    for (int part = 0; part < 2; ++part) {
      for (int row = 0; row < kRows; ++row) {
        const auto words = words_of([&](int i) { return code(row, 32 * part + i); });
        for (int w = 0; w < bits; ++w)
          put(codes, (part * bits + w) * kRows + row, words[static_cast<std::size_t>(w)]);
      }
      const auto words = words_of([&](int row) { return (zero(row, part) - 1) & most; });
      for (int w = 0; w < bits; ++w) put(zeros, part * bits + w, words[static_cast<std::size_t>(w)]);
    }
    std::vector<float> scales;
    for (int i = 0; i < 2 * kRows; ++i) scales.push_back(static_cast<float>(i + 1) / 64);
    testing::Parts parts;
    parts.add("w.qweight", "I32", concat("[", kColumns * bits / 32, ",32]"), codes)
        .add("w.qzeros", "I32", concat("[2,", bits, "]"), zeros)
        .floats("w.scales", "[2,32]", scales);
    const auto source =
        parts.open(concat(R"({"quant_method":"gptq","sym":false,"group_size":32,"bits":)", bits, "}"));
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->weight_type(), concat("GPTQ (int", bits, " in groups of 32, zero points)"));
    const TensorView weight = *(*source)->find("w.weight");
    EXPECT_EQ(weight.dtype, DType::int4);
    ASSERT_EQ(weight.shape, (std::vector<std::int64_t>{kRows, kColumns}));
    ASSERT_TRUE((*source)->bring_in(weight).ok());
    std::vector<float> values(kRows * kColumns);
    dequantize(weight.dtype, weight.data, kRows * kColumns, values.data());
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column)
        ASSERT_EQ(values[static_cast<std::size_t>(row * kColumns + column)],
                  scales[static_cast<std::size_t>(column / 32 * kRows + row)] *
                      (static_cast<float>(code(row, column)) - static_cast<float>(zero(row, column / 32))))
            << bits << " bits, row " << row << " column " << column;
  }
}

}  // namespace
}  // namespace pagoda
