// Goal: products by tiles compute what the rounded matrices give, over random shapes, weights of every kind,
// bias and accumulation; and an element's bits depend on its own row and column alone: not on the rows beside
// it, on where its row lies in a batch, or on the form that computes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "device/test_support.h"
#include "kernels/testing.h"

namespace pagoda::device {
namespace {

using Form = KernelLaunches::ProductForm;
constexpr Form kForms[] = {Form::few, Form::several, Form::some, Form::wide, Form::many};
constexpr Element kElements[] = {Element::bf16, Element::q4, Element::q8, Element::q4_k, Element::q6_k};

float rounded(float value) { return bfloat16_to_float(float_to_bfloat16(value)); }

std::uint64_t drawn(std::uint64_t seed, std::uint64_t what) { return random_bits(seed, 5, what); }

// Random weights as the device has them, and what they are worth once they are bfloat16.
struct Weights {
  Element element = Element::bf16;
  std::vector<std::byte> stored;
  std::vector<float> values;  // [n, k]
};

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* const first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

// As the kernels have 4 bits with a minimum: within 1e-5 of the scale of what they are worth, which a
// rounding may turn the other way.
float rounded_four(float scale, float minimum, int code) {
  const float value =
      rounded(std::fma(128 * scale, 1 + static_cast<float>(code) / 128, minimum - 128 * scale));
  EXPECT_NEAR(value, scale * static_cast<float>(code) + minimum,
              0.005 * (15 * scale + std::abs(minimum) + 1e-3));
  return value;
}

// kQuantizedUnit weights from the `first` on. `scale` and `minimum` have at most 11 bits.
void append_unit(Weights& weights, std::uint64_t seed, std::size_t first, float scale, float minimum) {
  Quantized4K four = {scale, minimum, {}, {}, {}};
  Quantized6K six = {{}, {}, {}, scale / 8, 0};
  for (std::size_t i = 0; i < std::size(six.scales); ++i)
    six.scales[i] = static_cast<std::int8_t>(drawn(seed + 1, first + i));
  for (std::size_t i = 0; i < std::size(four.scales); ++i) {
    four.scales[i] = static_cast<std::uint8_t>(drawn(seed + 2, first + i) & 63);
    four.minima[i] = static_cast<std::uint8_t>(drawn(seed + 3, first + i) & 63);
  }
  for (std::size_t i = 0; i < kQuantizedUnit; ++i) {
    const auto at = static_cast<std::int32_t>(i);
    const auto code = static_cast<int>(drawn(seed, first + i) & 63);
    const auto byte = static_cast<std::size_t>(code_byte(at)), high = static_cast<std::size_t>(high_byte(at));
    const int low = (code & 15) << (i % 32 < 16 ? 0 : 4);
    four.codes[byte] = static_cast<std::uint8_t>(four.codes[byte] | low);
    six.codes[byte] = static_cast<std::uint8_t>(six.codes[byte] | low);
    six.high[high] = static_cast<std::uint8_t>(six.high[high] | code >> 4 << high_shift(at));
    weights.values[first + i] =
        weights.element == Element::q4_k
            ? rounded_four(scale * static_cast<float>(four.scales[i / 32]),
                           -minimum * static_cast<float>(four.minima[i / 32]), code & 15)
            : rounded(six.scale * static_cast<float>(six.scales[i / 16]) * static_cast<float>(code - 32));
  }
  if (weights.element == Element::q4_k)
    append(weights.stored, four);
  else
    append(weights.stored, six);
}

Weights random_weights(Element element, std::uint64_t seed, std::size_t n, std::size_t k) {
  Weights weights = {.element = element, .stored = {}, .values = std::vector<float>(n * k)};
  const auto random = random_floats(seed, n * k);
  for (std::size_t i = 0; element == Element::bf16 && i < n * k; ++i) {
    append(weights.stored, float_to_bfloat16(random[i]));
    weights.values[i] = rounded(random[i]);
  }
  if (element == Element::bf16) return weights;
  if (element >= Element::q4_k) {
    for (std::size_t first = 0; first < n * k; first += kQuantizedUnit)
      append_unit(weights, seed, first,
                  bfloat16_to_float(float_to_bfloat16(0.004f * std::abs(random[first]))),
                  bfloat16_to_float(float_to_bfloat16(0.02f * random[first + 1])));
    return weights;
  }
  for (std::size_t first = 0; first < n * k; first += kQuantizedGroup) {
    const float scale = 0.01f + 0.1f * std::abs(random[first]), minimum = random[first + 1];
    Quantized4 four = {scale, minimum, {}};
    Quantized8 eight = {scale / 8, {}};
    for (std::size_t i = 0; i < kQuantizedGroup; ++i) {
      const auto byte = static_cast<std::uint8_t>(drawn(seed, first + i));
      float& value = weights.values[first + i];
      if (element == Element::q4) {
        four.codes[i % 16] = static_cast<std::uint8_t>(four.codes[i % 16] | (byte & 15) << (i < 16 ? 0 : 4));
        value = rounded_four(scale, minimum, byte & 15);
      } else {
        eight.codes[i] = static_cast<std::int8_t>(byte);
        value = rounded(eight.scale * static_cast<float>(eight.codes[i]));
      }
    }
    if (element == Element::q4) append(weights.stored, four);
    if (element == Element::q8) append(weights.stored, eight);
  }
  return weights;
}

struct Case {
  Element element = Element::bf16;
  std::size_t rows = 1, n = 8, k = 128;
  bool with_bias = false, accumulate = false;
  std::uint64_t seed = 0;

  Weights weights() const { return random_weights(element, seed, n, k); }
  std::vector<float> x() const { return random_floats(seed + 50, rows * k); }
  std::vector<float> bias() const { return random_floats(seed + 70, n); }
  std::vector<float> before() const { return random_floats(seed + 80, rows * n); }
};

std::vector<float> part(const std::vector<float>& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

// Rows [first, first + count) by themselves.
std::vector<float> product(const Case& of, Form form, std::size_t first, std::size_t count) {
  KernelBench bench(of.seed + first + count);
  LinearArgs args;
  args.x = bench.put(part(of.x(), first * of.k, count * of.k), "x");
  args.weight = bench.put(of.weights().stored, "weights");
  if (of.with_bias) args.bias = bench.put(of.bias(), "bias");
  args.y = of.accumulate ? bench.put(part(of.before(), first * of.n, count * of.n), "y")
                         : bench.make<float>(count * of.n, "y");
  args.rows = static_cast<std::int32_t>(count);
  args.n = static_cast<std::int32_t>(of.n);
  args.k = static_cast<std::int32_t>(of.k);
  args.accumulate = of.accumulate ? 1 : 0;
  args.rounded = bench.make<std::uint16_t>(count * of.k, "rounded");
  const Status status = bench.run().linear_tiles(of.element, args, form);
  EXPECT_TRUE(status.ok()) << status.message();
  return bench.get(args.y, count * of.n);
}

void expect_right(const Case& of, const std::vector<float>& got) {
  const auto x = of.x(), values = of.weights().values, bias = of.bias(), before = of.before();
  ASSERT_EQ(got.size(), of.rows * of.n);
  for (std::size_t r = 0; r < of.rows; ++r)
    for (std::size_t c = 0; c < of.n; ++c) {
      double sum = (of.accumulate ? before[r * of.n + c] : 0) + (of.with_bias ? bias[c] : 0), size = 1;
      for (std::size_t i = 0; i < of.k; ++i) {
        const double term = static_cast<double>(rounded(x[r * of.k + i])) * values[c * of.k + i];
        sum += term;
        size += std::abs(term);
      }
      // An element that is left out, or taken from a neighbour, is larger than that.
      ASSERT_NEAR(got[r * of.n + c], sum, 2e-5 * size) << "row " << r << ", column " << c;
    }
}

std::size_t between(std::uint64_t seed, std::uint64_t what, std::size_t least, std::size_t most) {
  return least + drawn(seed, 1000 + what) % (most - least + 1);
}

TEST(ProductKernels, AreRightOverRandomShapes) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Form form = kForms[seed % std::size(kForms)];
    const Element element = kElements[seed / 5 % 5];
    const std::size_t step = element == Element::bf16 ? 8 : element == Element::q4 ? 64 : 128;
    const Case of = {.element = element,
                     .rows = between(seed, 0, 1, form == Form::few ? 20 : 70),
                     .n = between(seed, 1, 1, 70),
                     .k = step * between(seed, 2, 1, 400 / step),
                     .with_bias = seed % 2 == 0,
                     .accumulate = seed / 4 % 2 == 0,
                     .seed = seed};
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << of.rows << " x " << of.n << " x " << of.k);
    expect_right(of, product(of, form, 0, of.rows));
  }
}

// Each form goes through its ring of stages more than once.
TEST(ProductKernels, AreRightOverManyStages) {
  for (const Element element : kElements)
    for (const Form form : kForms) {
      const Case of = {.element = element, .rows = 3, .n = 11, .k = 1664, .seed = 5};
      SCOPED_TRACE(testing::Message() << static_cast<int>(element) << " form " << static_cast<int>(form));
      expect_right(of, product(of, form, 0, of.rows));
    }
}

TEST(ProductKernels, BitsDependOnTheRowAlone) {
  for (const Element element : kElements) {
    const Case of = {.element = element,
                     .rows = 130,
                     .n = 10,
                     .k = element == Element::bf16 ? 424u
                          : element == Element::q4 ? 448u
                                                   : 384u,  // ends in a stage
                     .with_bias = element != Element::q4,
                     .accumulate = true,
                     .seed = 11};
    SCOPED_TRACE(static_cast<int>(element));
    const std::vector<float> all = product(of, Form::many, 0, of.rows);
    expect_right(of, all);
    for (const Form form : kForms)
      for (const auto& [first, count] :
           {std::pair{0, 1}, {129, 1}, {64, 1}, {5, 3}, {127, 3}, {40, 16}, {113, 17}, {33, 64}, {0, 130}}) {
        const auto from = static_cast<std::size_t>(first), rows = static_cast<std::size_t>(count);
        EXPECT_TRUE(same_bits(product(of, form, from, rows), part(all, from * of.n, rows * of.n)))
            << "form " << static_cast<int>(form) << ", rows from " << first << ", " << count;
      }
  }
}

// Two matrices of different types side by side: LinearArgs::stride.
TEST(ProductKernels, PartsOfARowLieBesideEachOther) {
  const Case first = {.element = Element::q4_k, .rows = 20, .n = 18, .k = 256, .seed = 1};
  const Case second = {.element = Element::q6_k, .rows = 20, .n = 10, .k = 256, .seed = 1};
  const std::size_t width = first.n + second.n;
  for (const bool tiles : {true, false})
    for (const std::size_t rows : {std::size_t{3}, first.rows}) {
      KernelBench bench(1);
      const auto x = bench.put(part(first.x(), 0, rows * first.k));
      auto* const rounded = bench.make<std::uint16_t>(rows * first.k);
      const auto multiply = [&](const Case& of, float* y, std::size_t stride) {
        LinearArgs args = {.x = x, .weight = bench.put(of.weights().stored), .y = y};
        args.rows = static_cast<std::int32_t>(rows);
        args.n = static_cast<std::int32_t>(of.n);
        args.k = static_cast<std::int32_t>(of.k);
        args.rounded = rounded;
        args.stride = static_cast<std::int32_t>(stride);
        EXPECT_TRUE(
            (tiles ? bench.run().linear_tiles(of.element, args) : bench.run().linear(of.element, args)).ok());
      };
      float* const both = bench.make<float>(rows * width);
      multiply(first, both, width);
      multiply(second, both + first.n, width);
      float* const alone[] = {bench.make<float>(rows * first.n), bench.make<float>(rows * second.n)};
      multiply(first, alone[0], 0);
      multiply(second, alone[1], 0);
      const auto got = bench.get(both, rows * width), left = bench.get(alone[0], rows * first.n),
                 right = bench.get(alone[1], rows * second.n);
      for (std::size_t row = 0; row < rows; ++row) {
        EXPECT_TRUE(same_bits(part(got, row * width, first.n), part(left, row * first.n, first.n)));
        EXPECT_TRUE(
            same_bits(part(got, row * width + first.n, second.n), part(right, row * second.n, second.n)));
      }
    }
}

// Rows that are infinite or not a number stay among themselves.
TEST(ProductKernels, RowsDoNotSeeEachOther) {
  const Case of = {.rows = 16, .n = 16, .k = 128, .seed = 3};
  for (const Form form : kForms) {
    KernelBench bench(1);
    std::vector<float> x = of.x();
    const std::vector<float> wanted = product(of, form, 0, 1);
    for (std::size_t i = of.k; i < x.size(); ++i) x[i] = i % 2 == 0 ? INFINITY : NAN;
    LinearArgs args = {.x = bench.put(x), .weight = bench.put(of.weights().stored)};
    args.y = bench.make<float>(of.rows * of.n);
    args.rows = 16, args.n = 16, args.k = 128;
    args.rounded = bench.make<std::uint16_t>(of.rows * of.k);
    ASSERT_TRUE(bench.run().linear_tiles(Element::bf16, args, form).ok());
    const std::vector<float> got = bench.get(args.y, of.rows * of.n);
    EXPECT_TRUE(same_bits(part(got, 0, of.n), wanted));
    EXPECT_TRUE(std::isnan(got[of.n]));
  }
}

// Pairs of rows and experts: each as its row by its expert's matrix alone.
TEST(ProductKernels, PairsOfExpertsHaveTheBitsOfTheirRowAlone) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const Element element = kElements[seed % 5];
    const std::size_t experts = between(seed, 0, 2, 6), n = between(seed, 1, 5, 40), k = 256, per_token = 2,
                      rows = between(seed, 2, 1, 30), pairs = rows * per_token;
    const bool weighed = seed % 2 == 0, with_bias = seed < 5;
    const Weights weights = random_weights(element, seed, experts * n, k);
    const auto x = random_floats(seed + 1, rows * k), factors = random_floats(seed + 2, pairs),
               bias = random_floats(seed + 3, experts * n);
    std::vector<std::int32_t> chosen;
    std::vector<float> weighed_x;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      chosen.push_back(
          static_cast<std::int32_t>(between(seed, 50 + pair, 0, pair % 3 == 0 ? experts - 1 : 1)));
      for (std::size_t i = 0; i < k; ++i)
        weighed_x.push_back(x[pair / per_token * k + i] * (weighed ? factors[pair] : 1));
    }
    KernelBench bench(seed);
    GroupedLinearArgs args = {.x = bench.put(x), .weight = bench.put(weights.stored, "weights")};
    args.bias = with_bias ? bench.put(bias) : nullptr;
    args.factors = weighed ? bench.put(factors) : nullptr;
    args.y = bench.make<float>(pairs * n);
    auto* const slots = bench.make<std::int32_t>(pairs);
    args.pairs = static_cast<std::int32_t>(pairs);
    args.experts = static_cast<std::int32_t>(experts);
    auto* const tiles =
        bench.make<TileOfPairs>(static_cast<std::size_t>(most_tiles(args.pairs, args.experts)));
    args.slots = slots;
    args.tiles = tiles;
    args.n = static_cast<std::int32_t>(n);
    args.k = static_cast<std::int32_t>(k);
    args.pairs_of_row = static_cast<std::int32_t>(per_token);
    ASSERT_TRUE(bench.run().group_pairs({bench.put(chosen), slots, tiles, args.pairs, args.experts}).ok());
    ASSERT_TRUE(bench.run().grouped_tiles(element, args).ok());
    const float* const alone = bench.put(weighed_x);
    float* const wanted = bench.make<float>(pairs * n);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const auto expert = static_cast<std::size_t>(chosen[pair]);
      LinearArgs one = {.x = alone + pair * k, .bias = with_bias ? args.bias + expert * n : nullptr};
      one.weight = static_cast<const std::byte*>(args.weight) + expert * (weights.stored.size() / experts);
      one.y = wanted + pair * n;
      one.rows = 1;
      one.n = args.n;
      one.k = args.k;
      ASSERT_TRUE(bench.run().linear_tiles(element, one).ok());
    }
    EXPECT_TRUE(same_bits(bench.get(args.y, pairs * n), bench.get(wanted, pairs * n)));
  }
}

TEST(ProductKernels, FormsAreChosenBySize) {
  EXPECT_EQ(KernelLaunches::product_form(1, 4096), Form::few);
  EXPECT_EQ(KernelLaunches::product_form(16, 128256), Form::few);
  EXPECT_EQ(KernelLaunches::product_form(17, 4096), Form::several);
  EXPECT_EQ(KernelLaunches::product_form(33, 4096), Form::some);
  EXPECT_EQ(KernelLaunches::product_form(64, 128256), Form::wide);
  EXPECT_EQ(KernelLaunches::product_form(256, 4096), Form::wide);
  EXPECT_EQ(KernelLaunches::product_form(65, 4096), Form::some);
  EXPECT_EQ(KernelLaunches::product_form(256, 28672), Form::many);
  EXPECT_EQ(KernelLaunches::product_form(2048, 4096), Form::many);
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::f32, 128));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::bf16, 40));
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::bf16, 36));
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::q4, 96));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::q4, 192));
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::q8, 192));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::q6_k, 256));
}

}  // namespace
}  // namespace pagoda::device
