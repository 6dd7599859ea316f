// The search for a rate against predicates whose answer is known, monotone and not.
#include "sim/rate_search.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

double found(const std::function<bool(double)>& holds, double first, int* asked = nullptr) {
  const auto rate = highest_rate_that_holds(
      [&](double at) -> Result<bool> {
        if (asked != nullptr) ++*asked;
        return holds(at);
      },
      first);
  EXPECT_TRUE(rate);
  return rate->value_or(0);
}

TEST(RateSearch, FindsTheEdgeToTwoPercentFromAnywhere) {
  for (const double edge : {0.0123, 0.9, 1.0, 7.7, 40'000.0}) {
    for (const double first : {0.5, 1.0, 64.0}) {
      int asked = 0;
      const double rate = found([=](double at) { return at <= edge; }, first, &asked);
      EXPECT_LE(rate, edge);
      EXPECT_GE(rate * 1.021, edge);
      EXPECT_LT(asked, 50);
    }
  }
}

TEST(RateSearch, NoneAndAllAreSaid) {
  EXPECT_EQ(found([](double) { return false; }, 1), 0);
  EXPECT_GT(found([](double) { return true; }, 1), 0.4 * kMaxRate);
}

TEST(RateSearch, ARateAboveADipDoesNotCount) {
  // 8 and less hold, but for a band just below 8.
  const double rate = found([](double at) { return at <= 8 && !(at > 6.2 && at < 7.6); }, 1);
  EXPECT_LE(rate, 6.2);
  EXPECT_GE(rate * 1.021, 6.2);
  // Wherever the search begins.
  EXPECT_NEAR(found([](double at) { return at <= 8 && !(at > 6.2 && at < 7.6); }, 100), rate, 0.02 * rate);
}

TEST(RateSearch, TighterLimitsNeverAllowMore) {
  double before = 1e9;
  for (double limit = 3; limit > 0.5; limit *= 0.93) {
    const double rate = found([=](double at) { return 0.1 + at * at / 30 <= limit; }, 1);
    EXPECT_LE(rate, before);
    before = rate;
  }
}

TEST(RateSearch, EndsWhereChanceDecidesAtEveryRate) {
  int asked = 0;
  std::uint64_t draw = 1;
  found([&](double at) { return at < 1000 && (draw = draw * 6364136223846793005u + 1) >> 63 == 0; }, 1,
        &asked);
  EXPECT_LT(asked, 150);
}

TEST(RateSearch, ErrorsEndIt) {
  const auto rate =
      highest_rate_that_holds([](double) -> Result<bool> { return invalid_argument("no such workload"); }, 1);
  ASSERT_FALSE(rate);
  EXPECT_EQ(rate.error().message(), "no such workload");
}

}  // namespace
}  // namespace pagoda
