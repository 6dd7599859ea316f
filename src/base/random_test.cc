#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace pagoda {
namespace {

// SplitMix64's published first outputs for seed 0: the state is advanced before it is mixed.
TEST(Random, MixerIsSplitMix64) {
  constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15ull;
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(mix64(kGamma), 0x6E789E6AA1B965F4ull);
  EXPECT_EQ(mix64(2 * kGamma), 0x06C45D188009454Full);
}

TEST(Random, DependsOnEachArgument) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    for (std::uint64_t stream = 0; stream < 8; ++stream)
      for (std::uint64_t position = 0; position < 8; ++position)
        seen.insert(random_bits(seed, stream, position));
  EXPECT_EQ(seen.size(), 512u);
  EXPECT_EQ(random_bits(1, 2, 3), random_bits(1, 2, 3));
}

// 16 equal bins over consecutive positions of one stream: chi-square with 15 degrees of freedom stays below
// its 99.99 % point, 44.3, and the mean near one half.
TEST(Random, UniformFillsTheUnitInterval) {
  constexpr int kDraws = 32'000, kBins = 16;
  int bins[kBins] = {};
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random_uniform(42, 7, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<int>(u * kBins)];
    sum += u;
  }
  double chi_square = 0;
  for (const int count : bins) chi_square += std::pow(count - kDraws / kBins, 2) / (double{kDraws} / kBins);
  EXPECT_LT(chi_square, 44.3);
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
}

}  // namespace
}  // namespace pagoda
