// Goal: products whose inputs a scheme quantises are the scheme's: every instruction set agrees with the
// plain reference, that with integer sums where the scheme has them, and a row's bits depend on the row
// alone.
#include "tensor/linear_arithmetic.h"

#include <gtest/gtest.h>

#include "kernels/linear.h"
#include "kernels/mixture.h"
#include "kernels/reference/quantize.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr LinearArithmetic kInt8Rows = {.number = InputNumber::int8};
constexpr LinearArithmetic kInt8Fixed = {
    .number = InputNumber::int8, .scales = InputScale::fixed, .scale = 0.011f};
constexpr LinearArithmetic kE4m3Rows = {.number = InputNumber::e4m3};
constexpr LinearArithmetic kE4m3Bounded = {.number = InputNumber::e4m3, .largest = 0.7f};
constexpr LinearArithmetic kE4m3Groups = {
    .number = InputNumber::e4m3, .scales = InputScale::group, .group = 128};
constexpr LinearArithmetic kE4m3Fixed = {
    .number = InputNumber::e4m3, .scales = InputScale::fixed, .scale = 0.003f};
constexpr LinearArithmetic kAll[] = {kInt8Rows, kInt8Fixed, kE4m3Rows, kE4m3Bounded, kE4m3Groups, kE4m3Fixed};

struct Matrix {
  std::vector<std::byte> bytes;
  TensorView view;
};

// int8 blocks of 32 with one scale for each row, as W8A8 has them.
Matrix int8_rows(std::uint64_t seed, std::int64_t n, std::int64_t k) {
  Matrix out{random_weights(seed, DType::int8, n * k), {}};
  const auto block = static_cast<std::size_t>(dtype_info(DType::int8).block_bytes);
  for (std::size_t row = 0; row < static_cast<std::size_t>(n); ++row) {
    const float scale = 0.0013f + 0.00017f * static_cast<float>(row);
    for (std::size_t i = 0; i < static_cast<std::size_t>(k / 32); ++i)
      std::memcpy(out.bytes.data() + (row * static_cast<std::size_t>(k / 32) + i) * block, &scale, 4);
  }
  out.view = {DType::int8, {n, k}, out.bytes.data()};
  return out;
}

Matrix plain(std::uint64_t seed, std::int64_t n, std::int64_t k) {
  Matrix out{random_weights(seed, DType::bf16, n * k), {}};
  out.view = {DType::bf16, {n, k}, out.bytes.data()};
  return out;
}

PackedLinear pack_matrix(const KernelContext& context, LinearType type, const Matrix& matrix,
                         const LinearArithmetic& arithmetic, std::vector<float> bias = {}) {
  auto packed = PackedLinear::pack(context, type, std::span(&matrix.view, 1), std::move(bias),
                                   LinearForm::stacked, arithmetic);
  CHECK(packed.has_value());
  return *std::move(packed);
}

std::vector<float> product_rows(const KernelContext& context, const PackedLinear& weight, const float* x,
                                std::int64_t rows) {
  std::vector<float> y(static_cast<std::size_t>(rows * weight.n()));
  linear(context, weight, LinearInput::rows(x, weight.k()), rows, Buffer::of(y.data(), weight.n()));
  return y;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - b[i]));
  }
  return most / (largest + 1e-9);
}

TEST(LinearArithmetic, EveryLevelAgreesWithReference) {
  constexpr std::int64_t kRows = 19, kN = 37;
  const KernelContext reference{.backend = Backend::reference};
  for (const std::int64_t k : {32, 288, 416}) {
    const Matrix int8 = int8_rows(1, kN, k), bf16 = plain(2, kN, k);
    const std::vector<float> x = random_floats(3, static_cast<std::size_t>(kRows * k)),
                             bias = random_floats(4, kN);
    for (const CpuLevel level : levels_here()) {
      const KernelContext cpu{.backend = Backend::cpu, .level = level};
      for (const LinearArithmetic& arithmetic : kAll) {
        for (const LinearType type : kLinearTypes) {
          const Matrix& matrix = type == LinearType::int8 ? int8 : bf16;
          const double lost =
              difference(product_rows(cpu, pack_matrix(cpu, type, matrix, arithmetic, bias), x.data(), kRows),
                         product_rows(reference, pack_matrix(reference, type, matrix, arithmetic, bias),
                                      x.data(), kRows));
          EXPECT_LT(lost, 2e-6) << cpu_level_name(level) << " " << linear_arithmetic_text(arithmetic)
                                << " type " << static_cast<int>(type) << " k " << k;
        }
      }
    }
  }
}

// W8A8: the scale of the token times that of the output times a sum of integers, at every level the same
// bits. Half of the rows and weights have numbers of one sign, whose sums no float holds.
TEST(LinearArithmetic, Int8IsAnIntegerSum) {
  constexpr std::int64_t kRows = 70, kN = 40, kK = 2144;
  Matrix matrix = int8_rows(5, kN, kK);
  std::vector<float> x = random_floats(6, kRows * kK);
  for (std::int64_t i = 0; i < kRows / 2 * kK; ++i) {
    float& value = x[static_cast<std::size_t>(i)];
    value = 0.9f + 0.1f * std::fabs(value);
  }
  // One row in the middle between numbers, or next to it: each quotient is that of a division.
  for (std::int64_t i = 0; i < kK; ++i)
    x[static_cast<std::size_t>((kRows - 1) * kK + i)] =
        i == 0 ? 0.7f : (static_cast<float>(i % 254 - 127) + 0.5f) * (0.7f / 127);
  for (std::int64_t i = 0; i < kN / 2 * kK; ++i) {
    std::byte& number = matrix.bytes[static_cast<std::size_t>(i / 32 * 36 + 4 + i % 32)];
    number = std::byte{0x80} | (number & std::byte{7});
  }
  std::vector<float> at_all_levels;
  for (const CpuLevel level : levels_here()) {
    const KernelContext cpu{.backend = Backend::cpu, .level = level};
    const std::vector<float> y =
        product_rows(cpu, pack_matrix(cpu, LinearType::int8, matrix, kInt8Rows), x.data(), kRows);
    if (at_all_levels.empty()) at_all_levels = y;
    EXPECT_TRUE(same_bits(y, at_all_levels)) << cpu_level_name(level);
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    const float* own = x.data() + row * kK;
    float largest = 0;
    for (std::int64_t i = 0; i < kK; ++i) largest = std::max(largest, std::fabs(own[i]));
    const float scale = largest / 127;
    for (std::int64_t n = 0; n < kN; ++n) {
      const std::byte* blocks = matrix.bytes.data() + n * kK / 32 * 36;
      float weight_scale = 0;
      std::memcpy(&weight_scale, blocks, 4);
      std::int32_t sum = 0;
      for (std::int64_t i = 0; i < kK; ++i)
        sum += static_cast<std::int32_t>(std::nearbyint(own[i] / scale)) *
               static_cast<std::int8_t>(blocks[i / 32 * 36 + 4 + i % 32]);
      const float expected = static_cast<float>(sum) * weight_scale * scale;
      EXPECT_EQ(at_all_levels[static_cast<std::size_t>(row * kN + n)], expected) << row << " " << n;
    }
  }
}

TEST(LinearArithmetic, RoundsToTheNearestE4m3) {
  // All of them that are not negative, and what lies between two neighbours.
  std::vector<float> numbers;
  for (int bits = 0; bits < 127; ++bits) {
    const int exponent = bits >> 3, fraction = bits & 7;
    numbers.push_back(exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                    : std::ldexp(static_cast<float>(8 + fraction), exponent - 10));
  }
  ASSERT_EQ(numbers.back(), 448);
  std::vector<float> x, expected;
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const float low = numbers[i], high = numbers[i + 1], middle = (low + high) / 2;
    for (const auto& [value, rounded] : {std::pair{low, low},
                                         {std::nextafter(middle, 0.0f), low},
                                         {middle, i % 2 == 0 ? low : high},
                                         {std::nextafter(middle, 500.0f), high}}) {
      x.insert(x.end(), {value, -value});
      expected.insert(expected.end(), {rounded, -rounded});
    }
  }
  x.insert(x.end(), {448, 1e9f, -1e9f, 1e-30f});
  expected.insert(expected.end(), {448, 448, -448, 0});
  // One weight of 1: the products are the numbers.
  const std::vector<float> ones(1, 1.0f);
  const Matrix one{{}, {DType::f32, {1, 1}, reinterpret_cast<const std::byte*>(ones.data())}};
  const LinearArithmetic fixed = {.number = InputNumber::e4m3, .scales = InputScale::fixed, .scale = 1};
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<KernelContext> contexts = {{.backend = Backend::reference}};
  for (const CpuLevel level : levels_here()) contexts.push_back({.backend = Backend::cpu, .level = level});
  for (const KernelContext& context : contexts)
    EXPECT_EQ(product_rows(context, pack_matrix(context, LinearType::float32, one, fixed), x.data(), count),
              expected);
}

TEST(LinearArithmetic, RowBitsDependOnTheRowAlone) {
  constexpr std::int64_t kRows = 67, kN = 80, kK = 416;
  static ThreadPool three(3);
  const Matrix int8 = int8_rows(7, kN, kK), bf16 = plain(8, kN, kK);
  const std::vector<float> x = random_floats(9, kRows * kK);
  for (const CpuLevel level : levels_here()) {
    for (const LinearArithmetic& arithmetic : kAll) {
      for (const LinearType type : kLinearTypes) {
        SCOPED_TRACE(::testing::Message()
                     << cpu_level_name(level) << " " << linear_arithmetic_text(arithmetic) << " type "
                     << static_cast<int>(type));
        const KernelContext alone{.backend = Backend::cpu, .level = level};
        KernelContext threaded = alone;
        threaded.pool = &three;
        const PackedLinear weight =
            pack_matrix(alone, type, type == LinearType::int8 ? int8 : bf16, arithmetic);
        const std::vector<float> all = product_rows(threaded, weight, x.data(), kRows);
        for (const std::int64_t m : {1, 2, 5, 16, 17, 33}) {
          const std::int64_t start = (m * 29) % (kRows - m);
          const auto begin = all.begin() + start * kN;
          EXPECT_TRUE(same_bits(product_rows(m % 2 == 0 ? threaded : alone, weight, x.data() + start * kK, m),
                                std::vector<float>(begin, begin + m * kN)))
              << " m " << m;
        }
      }
    }
  }
}

// A feed-forward's two matrices as one call give the bits of two calls, of experts, too.
TEST(LinearArithmetic, PairsAreTwoProducts) {
  constexpr std::int64_t kRows = 21, kHidden = 96, kInner = 192;
  static ThreadPool two(2);
  const Matrix up = plain(10, kInner, kHidden), down = plain(11, kHidden, kInner),
               int8_up = int8_rows(10, kInner, kHidden), int8_down = int8_rows(11, kHidden, kInner);
  const std::vector<float> x = random_floats(12, kRows * kHidden);
  for (const CpuLevel level : levels_here()) {
    for (const LinearArithmetic& arithmetic : kAll) {
      SCOPED_TRACE(::testing::Message()
                   << cpu_level_name(level) << " " << linear_arithmetic_text(arithmetic));
      const KernelContext context{.backend = Backend::cpu, .level = level, .pool = &two};
      std::vector<PackedLinear> first, second;
      const bool int8 = arithmetic.number == InputNumber::int8;
      const LinearType type = int8 ? LinearType::int8 : LinearType::bfloat16;
      first.push_back(pack_matrix(context, type, int8 ? int8_up : up, arithmetic));
      second.push_back(pack_matrix(context, type, int8 ? int8_down : down, arithmetic));
      std::vector<float> inner(kRows * kInner), between(kRows * kInner), expected(kRows * kHidden),
          pair(kRows * kHidden), grouped(kRows * kHidden);
      const LinearInput input = LinearInput::rows(x.data(), kHidden);
      linear(context, first[0], input, kRows, Buffer::of(inner.data(), kInner),
             {.activation = Activation::silu});
      linear(context, second[0], LinearInput::rows(inner.data(), kInner), kRows,
             Buffer::of(expected.data(), kHidden));
      linear_pair(context, first[0], Activation::silu, second[0], input, kRows,
                  Buffer::of(between.data(), kInner), Buffer::of(pair.data(), kHidden));
      EXPECT_TRUE(same_bits(pair, expected));
      std::vector<std::int32_t> rows(kRows);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
      const std::vector<std::int32_t> starts = {0, kRows};
      const RowGroups groups{.starts = starts, .rows = rows};
      grouped_pair(context, first, Activation::silu, second, input, kRows, groups, grouped.data());
      EXPECT_TRUE(same_bits(grouped, expected));
    }
  }
}

// Gate and up of W8A8, and matrices of which one has scales in groups, for it shares its rows with the other.
TEST(LinearArithmetic, JoinedMatricesAreEachTheirOwn) {
  constexpr std::int64_t kRows = 20, kN = 48, kK = 160;
  const Matrix first = int8_rows(16, kN, kK), second = int8_rows(17, kN, kK);
  Matrix grouped{random_weights(18, DType::int8, kN * kK), {}};
  grouped.view = {DType::int8, {kN, kK}, grouped.bytes.data()};
  const std::vector<float> x = random_floats(19, kRows * kK);
  for (const CpuLevel level : levels_here()) {
    const KernelContext context{.backend = Backend::cpu, .level = level};
    const std::vector<float> of_first =
        product_rows(context, pack_matrix(context, LinearType::int8, first, kInt8Rows), x.data(), kRows);
    for (const Matrix* other : {&second, static_cast<const Matrix*>(&grouped)}) {
      const std::vector<float> of_other =
          product_rows(context, pack_matrix(context, LinearType::int8, *other, kInt8Rows), x.data(), kRows);
      const TensorView views[] = {first.view, other->view};
      const auto joined =
          PackedLinear::pack(context, LinearType::int8, views, {}, LinearForm::stacked, kInt8Rows);
      ASSERT_TRUE(joined.has_value());
      const std::vector<float> both = product_rows(context, *joined, x.data(), kRows);
      std::vector<float> expected, values(kK), file(kK);
      for (std::int64_t row = 0; row < kRows; ++row)
        for (const std::vector<float>* own : {&of_first, &of_other})
          expected.insert(expected.end(), own->begin() + row * kN, own->begin() + (row + 1) * kN);
      EXPECT_TRUE(same_bits(both, expected)) << cpu_level_name(level);
      joined->row(kN - 1, values.data());
      dequantize(DType::int8, first.bytes.data() + (kN - 1) * kK / 32 * 36, kK, file.data());
      EXPECT_EQ(values, file);
    }
  }
}

TEST(LinearArithmetic, IsPartOfAPackedFile) {
  const KernelContext context{.backend = Backend::cpu, .level = detected_cpu_level()};
  const Matrix matrix = plain(13, 32, 128);
  for (const LinearArithmetic& arithmetic : kAll) {
    const PackedLinear packed = pack_matrix(context, LinearType::float32, matrix, arithmetic);
    const auto mapped = PackedLinear::map(packed.description(), packed.bytes(), nullptr);
    ASSERT_TRUE(mapped.has_value());
    EXPECT_EQ(mapped->arithmetic(), arithmetic);
  }
  const Matrix int8 = int8_rows(14, 40, 96);
  const PackedLinear integers = pack_matrix(context, LinearType::int8, int8, kInt8Rows);
  std::string description = integers.description();
  const auto mapped = PackedLinear::map(description, integers.bytes(), nullptr);
  ASSERT_TRUE(mapped.has_value());
  const std::vector<float> x = random_floats(15, 96);
  EXPECT_TRUE(
      same_bits(product_rows(context, *mapped, x.data(), 1), product_rows(context, integers, x.data(), 1)));
  description[9] = static_cast<char>(InputNumber::own);  // behind the version and five bytes
  EXPECT_FALSE(PackedLinear::map(description, integers.bytes(), nullptr).has_value());

  LinearArithmetic damaged = kE4m3Fixed;
  damaged.scale = 0;
  const PackedLinear packed = pack_matrix(context, LinearType::float32, matrix, damaged);
  EXPECT_FALSE(PackedLinear::map(packed.description(), packed.bytes(), nullptr).has_value());
}

}  // namespace
}  // namespace pagoda
