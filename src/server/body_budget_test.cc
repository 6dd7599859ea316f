#include "server/body_budget.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class BodyBudgetTest : public ::testing::Test {
 protected:
  MemoryBudget memory{100 * kMiB};
  MemoryBudget::AccountId account =
      *memory.add_account("bodies", 0, BodyBudget::with_room_for_small(4 * kMiB));
  MemoryBudget::AccountId other = *memory.add_account("other", 0, 100 * kMiB);
  BodyBudget budget{memory, account, kMiB};
};

// One peer held all of it, and nobody else could send five kilobytes.
TEST_F(BodyBudgetTest, OnePeerLeavesAQuarterToTheOthers) {
  EXPECT_TRUE(budget.add("a", 0, 2 * kMiB));
  EXPECT_TRUE(budget.add("a", 0, kMiB));
  EXPECT_FALSE(budget.add("a", 0, kMiB / 2));
  EXPECT_TRUE(budget.add("b", 0, kMiB));
  EXPECT_FALSE(budget.add("b", 0, kMiB)) << "all there is";
  EXPECT_FALSE(budget.add("c", 0, kMiB));
  EXPECT_EQ(memory.used(), 4 * kMiB);
  budget.release("a", 2 * kMiB);
  EXPECT_TRUE(budget.add("c", 0, kMiB));
  EXPECT_EQ(memory.used(), 3 * kMiB);
}

TEST_F(BodyBudgetTest, LargeOnesLeaveRoomForSmallOnes) {
  EXPECT_TRUE(budget.add("a", 0, 3 * kMiB));
  EXPECT_TRUE(budget.add("b", 0, kMiB));
  EXPECT_TRUE(budget.add("a", 0, 5000));
  EXPECT_TRUE(budget.add("a", 5000, 5000));
  EXPECT_FALSE(budget.add("a", 10'000, 10'000)) << "no more than its first bytes";
  budget.release("a", 10'000);
  EXPECT_FALSE(budget.add("a", 0, kMiB));
}

TEST_F(BodyBudgetTest, SmallOnesAreBoundedToo) {
  std::int64_t count = 0;
  while (count < 1000 && budget.add("a", 0, BodyBudget::kSmall)) ++count;
  EXPECT_LE(count * BodyBudget::kSmall, BodyBudget::with_room_for_small(4 * kMiB) * 3 / 4);
  EXPECT_TRUE(budget.add("b", 0, BodyBudget::kSmall)) << "others are not kept out by one";
}

TEST_F(BodyBudgetTest, WhatOthersHaveTakenIsNotThere) {
  auto taken = memory.try_reserve(other, 99 * kMiB);
  ASSERT_TRUE(taken.has_value());
  EXPECT_FALSE(budget.add("a", 0, 2 * kMiB));
  taken->reset();
  EXPECT_TRUE(budget.add("a", 0, 2 * kMiB));
}

}  // namespace
}  // namespace pagoda
