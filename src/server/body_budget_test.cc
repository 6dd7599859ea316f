#include "server/body_budget.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// D7: one peer held all of it, and nobody else could send five kilobytes.
TEST(BodyBudget, OnePeerLeavesAQuarterToTheOthers) {
  BodyBudget budget(4 * kMiB, kMiB);
  EXPECT_TRUE(budget.add("a", 0, 2 * kMiB));
  EXPECT_TRUE(budget.add("a", 0, kMiB));
  EXPECT_FALSE(budget.add("a", 0, kMiB / 2));
  EXPECT_TRUE(budget.add("b", 0, kMiB));
  EXPECT_FALSE(budget.add("b", 0, kMiB)) << "all there is";
  EXPECT_FALSE(budget.add("c", 0, kMiB));
  budget.release("a", 2 * kMiB);
  EXPECT_TRUE(budget.add("c", 0, kMiB));
}

TEST(BodyBudget, ASmallBodyAlwaysFits) {
  BodyBudget budget(4 * kMiB, kMiB);
  EXPECT_TRUE(budget.add("a", 0, 3 * kMiB));
  EXPECT_TRUE(budget.add("b", 0, kMiB));
  EXPECT_TRUE(budget.add("a", 0, 5000));
  EXPECT_TRUE(budget.add("a", 5000, 5000));
  EXPECT_FALSE(budget.add("a", 10'000, 10'000)) << "no more than its first bytes";
  budget.release("a", 10'000);
  EXPECT_FALSE(budget.add("a", 0, kMiB));
}

}  // namespace
}  // namespace pagoda
