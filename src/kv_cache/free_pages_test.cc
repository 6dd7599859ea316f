#include "kv_cache/free_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace pagoda {
namespace {

// Goal: a page is free or it is not, held back pages go last, others in the reverse order of their return.
// Method: two lists and a set, searched from end to end.
void compare_free_pages(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::int32_t>(rng() % n); };
  FreePages pages;
  pages.add(6);
  std::vector<BlockId> free, taken;  // the model: `free` in the order of their return, but for swaps
  std::set<BlockId> held, used;
  for (std::int32_t i = 5; i >= 0; --i) free.push_back(BlockId{i});
  for (int step = 0; step < 300; ++step) {
    const BlockId any = BlockId{below(static_cast<std::size_t>(pages.num_pages()))};
    switch (below(6)) {
      case 0: {
        if (free.empty()) break;
        const std::optional<BlockId> next = pages.peek();
        ASSERT_EQ(next.has_value(), held.size() < free.size());
        const BlockId got = pages.take();
        if (next) ASSERT_EQ(got, *next);
        ASSERT_EQ(held.contains(got), !next) << "held back pages go last";
        ASSERT_EQ(std::erase(free, got), 1);
        held.erase(got);
        used.insert(got);
        taken.push_back(got);
        break;
      }
      case 1: {
        if (taken.empty()) break;
        const BlockId back = taken[static_cast<std::size_t>(below(taken.size()))];
        std::erase(taken, back);
        free.push_back(back);
        pages.give_back(back);
        ASSERT_EQ(pages.peek(), back) << "the last one given back is the next";
        break;
      }
      case 2: {
        const bool there = std::ranges::find(free, any) != free.end();
        ASSERT_EQ(pages.take(any), there);
        if (!there) break;
        std::erase(free, any);
        held.erase(any);
        used.insert(any);
        taken.push_back(any);
        break;
      }
      case 3:
        pages.hold_back(any);
        if (std::ranges::find(free, any) != free.end()) held.insert(any);
        break;
      case 4:
        pages.let_go(any);
        held.erase(any);
        break;
      case 5: {
        if (pages.num_pages() < 12 && below(3) == 0) {
          free.push_back(BlockId{pages.num_pages()});
          pages.add(1);
          break;
        }
        const std::int32_t keep = below(4);
        std::vector<BlockId> forgotten;
        const std::int32_t before = pages.num_used();
        pages.forget_used(keep, forgotten);
        ASSERT_EQ(std::ssize(forgotten), std::max(0, before - keep));
        ASSERT_TRUE(std::ranges::is_sorted(forgotten));
        for (const BlockId page : forgotten) ASSERT_EQ(used.erase(page), 1u);
        break;
      }
    }
    ASSERT_EQ(pages.size(), std::ssize(free));
    for (std::int32_t i = 0; i < pages.num_pages(); ++i) {
      ASSERT_EQ(pages.contains(BlockId{i}), std::ranges::find(free, BlockId{i}) != free.end());
      ASSERT_EQ(pages.is_held_back(BlockId{i}), held.contains(BlockId{i}));
      ASSERT_EQ(pages.is_used(BlockId{i}), used.contains(BlockId{i}));
    }
    pages.check_invariants();
  }
}

TEST(FreePagesProperty, AgreesWithLists) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    compare_free_pages(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pagoda
