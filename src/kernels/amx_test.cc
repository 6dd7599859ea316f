// Goal: products in bfloat16 by tiles take in no more than their own rows and weights.
#include "kernels/amx.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

#include "kernels/linear.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

// Each strip ends within a tile, and what lies behind it is not finite. So are other rows.
TEST(Amx, NothingBehindAStripOrARowCounts) {
  constexpr std::int64_t kN = 48, kM = 27;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t k : {1, 2, 31, 33, 63, 97, 576, 577}) {
    std::vector<std::uint16_t> numbers(static_cast<std::size_t>(kN * k), float_to_bfloat16(0.5f));
    for (std::int64_t i = 16 * k; i < kN * k; ++i)
      numbers[static_cast<std::size_t>(i)] = float_to_bfloat16(kInfinity);
    const TensorView view{DType::bf16, {kN, k}, reinterpret_cast<const std::byte*>(numbers.data())};
    for (const CpuLevel level : levels_here()) {
      const KernelContext context{.backend = Backend::cpu, .level = level};
      const auto packed = PackedLinear::pack(context, LinearType::bfloat16, {&view, 1});
      ASSERT_TRUE(packed);
      for (std::int64_t rows = 1; rows <= kM; ++rows) {
        SCOPED_TRACE(::testing::Message() << cpu_kernels_name(level) << " inputs " << k << " rows " << rows);
        std::vector<float> x(static_cast<std::size_t>(rows * k), 2.0f),
            y(static_cast<std::size_t>(rows * kN));
        if (rows > 1) x.back() = std::numeric_limits<float>::quiet_NaN();
        linear(context, *packed, LinearInput::rows(x.data(), k), rows, Buffer::of(y.data(), kN));
        for (std::int64_t row = 0; row + 1 < rows; ++row) {
          EXPECT_EQ(y[static_cast<std::size_t>(row * kN)], static_cast<float>(k));
          EXPECT_EQ(y[static_cast<std::size_t>(row * kN + 15)], static_cast<float>(k));
          EXPECT_EQ(y[static_cast<std::size_t>(row * kN + 16)], kInfinity);
        }
      }
    }
  }
}

// Products exact in float32 have no order: with and without tiles they are the same.
TEST(Amx, WholeNumbersAreExact) {
  if (!amx_allowed()) GTEST_SKIP() << "no AMX here";
  constexpr std::int64_t kN = 40, kK = 200, kM = 30;
  std::vector<std::uint16_t> numbers(kN * kK);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = float_to_bfloat16(static_cast<float>(random_bits(1, 2, i) % 255) - 127);
  const TensorView view{DType::bf16, {kN, kK}, reinterpret_cast<const std::byte*>(numbers.data())};
  std::vector<float> x(kM * kK);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random_bits(3, 4, i) % 255) - 127;
  std::vector<std::vector<float>> results;
  for (const CpuLevel level : {CpuLevel::portable, CpuLevel::avx512}) {
    const KernelContext context{.backend = Backend::cpu, .level = level};
    const auto packed = PackedLinear::pack(context, LinearType::bfloat16, {&view, 1});
    ASSERT_TRUE(packed);
    std::vector<float>& y = results.emplace_back(kM * kN);
    linear(context, *packed, LinearInput::rows(x.data(), kK), kM, Buffer::of(y.data(), kN));
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

// Integer products have one result, and the tests that compare the levels hold without AMX, too: so its bits
// are AVX-512's.
TEST(Amx, IntegersAreThoseWithoutIt) {
  if (!amx_allowed()) GTEST_SKIP() << "no AMX here";
  const std::string command =
      "PAGODA_AMX=0 '" + std::filesystem::read_symlink("/proc/self/exe").string() +
      "' --gtest_brief=1 --gtest_filter='LinearArithmetic.*:Amx.NothingBehindAStripOrARowCounts'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Amx, IsNamedBesideItsLevelAlone) {
  EXPECT_EQ(cpu_kernels_name(CpuLevel::avx2), "avx2");
  EXPECT_EQ(cpu_kernels_name(CpuLevel::avx512), amx_allowed() ? "avx512 with AMX" : "avx512");
}

}  // namespace
}  // namespace pagoda
