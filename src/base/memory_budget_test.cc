// Goal: nobody gets more than its limit or what is left beside the promises, all is given back, from any
// number of threads. Method: the rules one by one; random calls on threads against the invariants.
#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

namespace pagoda {
namespace {

TEST(MemoryBudget, APromiseIsKeptAndALimitHolds) {
  MemoryBudget budget(100);
  const auto a = *budget.add_account("answers", 30, 100), b = *budget.add_account("bodies", 20, 50);
  EXPECT_FALSE(budget.try_reserve(b, 51));  // its own limit
  auto most = budget.try_reserve(b, 50);
  ASSERT_TRUE(most);
  EXPECT_FALSE(budget.try_reserve(a, 51));
  auto rest = budget.try_reserve(a, 50);
  ASSERT_TRUE(rest);
  EXPECT_EQ(budget.used(), 100);
  most->reset();
  EXPECT_FALSE(rest->try_resize(81)) << "20 are promised to the other";
  EXPECT_EQ(rest->bytes(), 50);
  EXPECT_TRUE(rest->try_resize(80));
  EXPECT_TRUE(budget.try_reserve(b, 20)) << "given back at once, as nobody keeps it";
  EXPECT_TRUE(rest->try_resize(0));
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudget, AReservationMovesAndEndsOnce) {
  MemoryBudget budget(10);
  const auto account = *budget.add_account("a", 0, 10);
  {
    MemoryReservation kept;
    {
      auto first = budget.try_reserve(account, 4);
      kept = *std::move(first);
    }
    EXPECT_EQ(budget.used(), 4);
    MemoryReservation second = std::move(kept);
    kept = *budget.try_reserve(account, 5);
    EXPECT_EQ(budget.used(), 9);
    kept = std::move(second);
    EXPECT_EQ(budget.used(), 4);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudget, AccountsThatCannotBeAreRefused) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.add_account("a", 60, 60));
  EXPECT_FALSE(budget.add_account("a", 0, 1));
  EXPECT_FALSE(budget.add_account("b", 41, 50));
  EXPECT_FALSE(budget.add_account("c", 5, 4));
  EXPECT_FALSE(budget.add_account("d", -1, 4));
  EXPECT_TRUE(budget.add_account("e", 40, std::int64_t{1} << 62));
  EXPECT_FALSE(budget.try_reserve(MemoryBudget::AccountId{1}, std::int64_t{1} << 62));
  ASSERT_EQ(budget.accounts().size(), 2u);
  EXPECT_EQ(budget.accounts()[1].name, "e");
}

TEST(MemoryBudget, ThreadsNeverTakeMoreThanThereIs) {
  MemoryBudget budget(1000);
  const std::vector<MemoryBudget::AccountId> ids = {*budget.add_account("a", 300, 600),
                                                    *budget.add_account("b", 100, 1000),
                                                    *budget.add_account("c", 0, 500)};
  std::atomic<std::int64_t> granted = 0, refused = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 rng(thread);
      std::vector<MemoryReservation> held;
      for (int i = 0; i < 3000; ++i) {
        const std::uint64_t what = rng() % 4;
        if (what < 2) {
          auto got = budget.try_reserve(ids[rng() % 3], static_cast<std::int64_t>(rng() % 200));
          ++(got ? granted : refused);
          if (got) held.push_back(*std::move(got));
        } else if (!held.empty()) {
          const std::size_t at = rng() % held.size();
          if (what == 2) {
            (void)held[at].try_resize(static_cast<std::int64_t>(rng() % 200));
          } else {
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
          }
        }
        std::int64_t bound = 0, used = 0;
        const MemoryBudget::Snapshot now = budget.snapshot();
        for (const MemoryBudget::Account& account : now.accounts) {
          EXPECT_TRUE(account.used >= 0 && account.used <= account.limit);
          bound += std::max(account.used, account.promised);
          used += account.used;
        }
        EXPECT_LE(bound, 1000);
        EXPECT_EQ(now.left, 1000 - bound);
        EXPECT_EQ(now.used, used);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
  EXPECT_GT(granted.load(), 100);
  EXPECT_GT(refused.load(), 100);
}

}  // namespace
}  // namespace pagoda
