// Goal: rows become the nearest 8-bit floats of their scale, alone, behind a norm or behind a function; and
// products of 8-bit floats by 8-bit floats are right, with bits that depend on an element's own row and
// column alone, in every form; a device that adds up otherwise in a single kernel is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/float8_check.h"
#include "device/kernels/float8_args.h"
#include "device/product_test_support.h"

namespace pagoda::device {
namespace {

using Float8Form = KernelLaunches::Float8Form;
constexpr auto kLeast = 1.0f / (448.0f * 512.0f);

// The slow way to the nearest number of 8 bits, ties to even.
std::uint8_t nearest_e4m3(float x) {
  const float size = std::min(std::abs(x), 448.0f);
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 0x7F; ++code) {
    const float before = std::abs(e4m3_value(best) - size), now = std::abs(e4m3_value(code) - size);
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

struct Codes {
  std::vector<std::uint8_t> stored;
  std::size_t rows, k;
  bool blocks;
  float scale(std::size_t row, std::size_t i) const {
    float scale;
    const std::size_t at = row + (blocks ? i / kFloat8Scale * rows : 0);
    std::memcpy(&scale, &stored[static_cast<std::size_t>(float8_codes(i32(rows), i32(k))) + 4 * at],
                sizeof scale);
    return scale;
  }
  std::uint8_t code(std::size_t row, std::size_t i) const {
    const std::int32_t at = i32(i), byte = at % kFloat8Scale / 32 * 32 + float8_byte(at % 32);
    return stored[static_cast<std::size_t>(float8_place(i32(rows), i32(row), at, byte))];
  }
  float value(std::size_t row, std::size_t i) const { return e4m3_value(code(row, i)) * scale(row, i); }
  static std::int32_t i32(std::size_t value) { return static_cast<std::int32_t>(value); }
};

std::int64_t bytes_of(std::size_t rows, std::size_t k, bool blocks) {
  return KernelLaunches::float8_input_bytes(blocks ? Element::fp8_blocks : Element::fp8,
                                            static_cast<std::int64_t>(rows), static_cast<std::int64_t>(k));
}

using Launch = Status (KernelLaunches::*)(const QuantizeRowsArgs&);
Codes quantize(KernelBench& bench, QuantizeRowsArgs args, Launch launch = &KernelLaunches::quantize_rows) {
  const auto rows = static_cast<std::size_t>(args.rows), k = static_cast<std::size_t>(args.width);
  const auto bytes = static_cast<std::size_t>(bytes_of(rows, k, args.blocks != 0));
  args.out = bench.make<std::uint8_t>(bytes, "codes");
  KernelLaunches run = bench.run();
  EXPECT_TRUE((run.*launch)(args).ok());
  return {bench.get(args.out, bytes), rows, k, args.blocks != 0};
}

TEST(Float8Rows, AreTheNearestNumbers) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::size_t rows = between(seed, 0, 1, 5), k = 32 * between(seed, 1, 1, 70);
    const bool blocks = seed % 2 != 0;
    auto x = random_floats(seed, rows * k);
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] *= 1e-3f;
    if (seed == 4) std::fill(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(k), 0.0f);
    if (seed == 5) x[3] = 1e20f;
    const float fixed = seed % 4 == 3 ? 0.01f : 0, bound = seed % 3 == 2 ? 0.5f : 0;
    KernelBench bench(seed);
    const Codes got = quantize(bench, {.x = bench.put(x),
                                       .rows = static_cast<std::int32_t>(rows),
                                       .width = static_cast<std::int32_t>(k),
                                       .blocks = blocks ? 1 : 0,
                                       .scale = fixed,
                                       .largest = bound});
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < static_cast<std::size_t>(float8_width(static_cast<std::int32_t>(k))); ++i) {
        if (i >= k) {
          ASSERT_EQ(got.code(row, i), 0) << "behind the end";
          continue;
        }
        const std::size_t first = blocks ? i / kFloat8Scale * kFloat8Scale : 0,
                          end = blocks ? std::min(k, first + kFloat8Scale) : k;
        float largest = 0;
        for (std::size_t at = first; at < end; ++at) largest = std::max(largest, std::abs(x[row * k + at]));
        if (bound > 0) largest = std::min(largest, bound);
        const float scale = fixed > 0 ? fixed : std::max(largest / 448.0f, kLeast);
        ASSERT_EQ(got.scale(row, i), scale);
        ASSERT_EQ(got.code(row, i), nearest_e4m3(x[row * k + i] / scale)) << x[row * k + i] / scale;
      }
  }
}

// For experts: the same codes and scales, as numbers of 16 bits, row by row.
TEST(Float8Rows, AreTheSameInBfloat16) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::size_t rows = between(seed, 0, 1, 5), k = 32 * between(seed, 1, 1, 40);
    const bool blocks = seed % 2 != 0, gated = seed % 4 >= 2;
    KernelBench bench(seed);
    QuantizeRowsArgs args = {.x = bench.put(random_floats(seed, rows * k * (gated ? 2 : 1))),
                             .rows = static_cast<std::int32_t>(rows),
                             .width = static_cast<std::int32_t>(k),
                             .blocks = blocks ? 1 : 0};
    if (gated) args.function = {.is_there = 1, .function = Function::silu, .gated = 1};
    const Launch launch = gated ? &KernelLaunches::quantize_function : &KernelLaunches::quantize_rows;
    const Codes codes = quantize(bench, args, launch);
    const auto bytes = static_cast<std::size_t>(KernelLaunches::float8_wide_bytes(
        static_cast<std::int64_t>(rows), static_cast<std::int64_t>(k), blocks));
    args.out = bench.make<std::uint8_t>(bytes, "codes");
    args.wide = 1;
    KernelLaunches run = bench.run();
    ASSERT_TRUE((run.*launch)(args).ok());
    const std::vector<std::uint8_t> wide = bench.get(args.out, bytes);
    const std::size_t scales = blocks ? (k + 127) / 128 : 1;
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < k; ++i) {
        std::uint16_t code = 0;
        float scale = 0;
        std::memcpy(&code, &wide[2 * (row * k + i)], sizeof code);
        std::memcpy(&scale, &wide[2 * rows * k + 4 * (row * scales + (blocks ? i / 128 : 0))], sizeof scale);
        ASSERT_EQ(bfloat16_to_float(code), e4m3_value(codes.code(row, i)));
        ASSERT_EQ(scale, codes.scale(row, i));
      }
  }
}

TEST(Float8Rows, AreThoseOfNormsAndFunctions) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::size_t rows = between(seed, 0, 1, 4), k = 32 * between(seed, 1, 1, 50), stride = k + 32;
    const auto width = static_cast<std::int32_t>(k), count = static_cast<std::int32_t>(rows);
    const std::int32_t blocks = seed % 2 == 0 ? 0 : 1;
    KernelBench bench(seed);
    const float *const x = bench.put(random_floats(seed, rows * stride)),
                       *const weight = bench.put(random_floats(seed + 1, k)),
                       *const bias = seed % 4 == 2 ? bench.put(random_floats(seed + 2, k)) : nullptr;
    const bool layer = seed % 4 >= 2;
    auto* const normed = bench.make<float>(rows * stride);
    const NormArgs norm = {.x = x,
                           .weight = weight,
                           .out = normed,
                           .width = width,
                           .eps = 1e-5f,
                           .bias = bias,
                           .stride = static_cast<std::int32_t>(stride)};
    ASSERT_TRUE((layer ? bench.run().layer_norm(norm, count) : bench.run().rms_norm(norm, count)).ok());
    const QuantizeRowsArgs of_rows = {.x = normed,
                                      .rows = count,
                                      .width = width,
                                      .stride = static_cast<std::int32_t>(stride),
                                      .blocks = blocks};
    QuantizeRowsArgs of_norm = of_rows;
    of_norm.x = x;
    of_norm.norm = {.kind = layer ? InputNorm::Kind::layer : InputNorm::Kind::rms,
                    .weight = weight,
                    .bias = bias,
                    .eps = 1e-5f};
    EXPECT_EQ(quantize(bench, of_norm, &KernelLaunches::quantize_norm).stored,
              quantize(bench, of_rows).stored);

    const std::int32_t is_gated = seed % 3 == 0 ? 0 : 1;
    const float* const in = bench.put(random_floats(seed + 3, 2 * rows * k));
    auto* const made = bench.make<float>(rows * k);
    ASSERT_TRUE(bench.run().activate({.in = in, .out = made, .width = width, .gated = is_gated}, count).ok());
    const QuantizeRowsArgs of_made = {.x = made, .rows = count, .width = width, .blocks = blocks};
    QuantizeRowsArgs of_function = of_made;
    of_function.x = in;
    of_function.function = {.is_there = 1, .gated = is_gated};
    EXPECT_EQ(quantize(bench, of_function, &KernelLaunches::quantize_function).stored,
              quantize(bench, of_made).stored);
  }
}

struct Float8Case {
  Element element = Element::fp8;
  std::size_t rows = 1, n = 8, k = 128;
  bool with_bias = false, accumulate = false;
  std::uint64_t seed = 0;
  std::vector<float> x() const { return random_floats(seed + 50, rows * k); }
  std::vector<float> before() const { return random_floats(seed + 80, rows * n); }
};

struct Product {
  std::vector<float> y;
  Codes x;
};
// Rows [first, first + count) by themselves.
Product float8_product(const Float8Case& of, Float8Form form, std::size_t first, std::size_t count) {
  KernelBench bench(of.seed + first + count);
  const auto rows = static_cast<std::int32_t>(count), k = static_cast<std::int32_t>(of.k);
  QuantizeRowsArgs inputs = {.x = bench.put(part(of.x(), first * of.k, count * of.k), "x"),
                             .rows = rows,
                             .width = k,
                             .blocks = of.element == Element::fp8_blocks ? 1 : 0};
  const auto bytes = static_cast<std::size_t>(bytes_of(count, of.k, inputs.blocks != 0));
  inputs.out = bench.make<std::uint8_t>(bytes, "codes");
  EXPECT_TRUE(bench.run().quantize_rows(inputs).ok());
  LinearArgs args = {.weight = bench.put(random_weights(of.element, of.seed, of.n, of.k).stored, "weights")};
  if (of.with_bias) args.bias = bench.put(random_floats(of.seed + 70, of.n), "bias");
  args.y = of.accumulate ? bench.put(part(of.before(), first * of.n, count * of.n), "y")
                         : bench.make<float>(count * of.n, "y");
  args.rows = rows, args.n = static_cast<std::int32_t>(of.n), args.k = k;
  args.accumulate = of.accumulate ? 1 : 0;
  args.rounded = reinterpret_cast<std::uint16_t*>(inputs.out);
  const Status status = bench.run().linear_float8(of.element, args, form);
  EXPECT_TRUE(status.ok()) << status.message();
  return {bench.get(args.y, count * of.n), {bench.get(inputs.out, bytes), count, of.k, inputs.blocks != 0}};
}

TEST(Float8Products, AreRightAndHaveTheSameBitsInEveryForm) {
  if (!has_warpgroups()) GTEST_SKIP() << "the device has no products of warpgroups";
  for (std::uint64_t seed = 0; seed < (tries_all() ? 18 : 12); ++seed) {
    const Float8Case of = {.element = seed % 2 == 0 ? Element::fp8 : Element::fp8_blocks,
                           .rows = between(seed, 0, 1, seed % 6 == 5 || seed >= 12 ? 200 : 70),
                           .n = between(seed, 1, 1, 400),
                           .k = 32 * between(seed, 2, 1, seed < 6 ? 60 : 20),
                           .with_bias = seed % 4 < 2,
                           .accumulate = seed / 4 % 2 == 0,
                           .seed = seed};
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << of.rows << " x " << of.n << " x " << of.k);
    const auto form = static_cast<Float8Form>(seed % 6);
    const Product all = float8_product(of, form, 0, of.rows);
    const auto values = random_weights(of.element, of.seed, of.n, of.k).values, before = of.before(),
               bias = random_floats(of.seed + 70, of.n);
    for (std::size_t r = 0; r < of.rows; ++r)
      for (std::size_t c = 0; c < of.n; ++c) {
        double sum = (of.accumulate ? before[r * of.n + c] : 0) + (of.with_bias ? bias[c] : 0), size = 1e-6;
        for (std::size_t i = 0; i < of.k; ++i) {
          const double term = static_cast<double>(all.x.value(r, i)) * values[c * of.k + i];
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(all.y[r * of.n + c], sum, 1e-3 * size + 1e-6) << "row " << r << ", column " << c;
      }
    const std::size_t first = of.rows / 2;
    for (std::size_t other = 0; other < 6; ++other)
      EXPECT_TRUE(same_bits(float8_product(of, static_cast<Float8Form>(other), first, 1).y,
                            part(all.y, first * of.n, of.n)));
  }
}

TEST(Float8Products, TakeTheFormThatFits) {
  EXPECT_EQ(KernelLaunches::float8_form(1, 4096), Float8Form::by_32_64);
  EXPECT_EQ(KernelLaunches::float8_form(32, 6144), Float8Form::by_48_64);
  EXPECT_EQ(KernelLaunches::float8_form(64, 28672), Float8Form::by_112_64);
  EXPECT_EQ(KernelLaunches::float8_form(4096, 28672), Float8Form::by_192_128);
}

TEST(Float8Check, PassesADeviceThatIsAsExpected) {
  auto device = *open_test_device();
  if (!device->has_warpgroups()) GTEST_SKIP() << "the device has no products of warpgroups";
  const auto right = check_float8_products(*device, *device->create_stream());
  ASSERT_TRUE(right.has_value());
  EXPECT_TRUE(*right);
}

TEST(Float8Check, FindsOtherSumsInASingleKernel) {
  for (const char* name : {"linear_float8_32_64", "linear_float8_192_128", "linear_float8_blocks_48_64",
                           "linear_float8_blocks_128_128"}) {
    auto device = *emulated::EmulatedDevice::create({.backward_kernels = name});
    const auto right = check_float8_products(*device, *device->create_stream());
    ASSERT_TRUE(right.has_value());
    EXPECT_FALSE(*right) << name;
  }
}

}  // namespace
}  // namespace pagoda::device
