// Goal: under any order of calls, every eviction order has the rows that were added, next() first, and the
// known ones agree with a list that is sorted anew each time. Method: random operations drawn from one seed.
#include "kv_cache/eviction_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

namespace pagoda {
namespace {

struct Added {
  BlockId row;
  std::int64_t num_hits;
  int when;
};

bool is_before(Eviction eviction, const Added& a, const Added& b) {
  if (eviction == Eviction::lfu && a.num_hits != b.num_hits) return a.num_hits < b.num_hits;
  return a.when < b.when;
}

std::vector<BlockId> rows_of(const std::vector<Added>& added) {
  std::vector<BlockId> out;
  for (const Added& entry : added) out.push_back(entry.row);
  return out;
}

void compare_order(Eviction eviction, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << kEvictionPolicies[static_cast<std::size_t>(eviction)] << ", seed "
                                    << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  const auto order = make_eviction_order(eviction);
  std::vector<Added> model;
  for (int step = 0; step < 300; ++step) {
    const BlockId row{static_cast<std::int32_t>(below(12))};
    const auto there = std::ranges::find(model, row, &Added::row);
    if (there == model.end()) {
      model.push_back({row, static_cast<std::int64_t>(below(3)), step});
      order->set_time(step);
      order->add(row, {.num_hits = model.back().num_hits,
                       .claim = {.owner = {.tenant = below(2)},
                                 .priority = static_cast<std::int32_t>(below(101)),
                                 .expires = below(2) == 0 ? 0 : step + static_cast<TimeNs>(below(30)),
                                 .pinned_until = step + static_cast<TimeNs>(below(20)) - 10}});
    } else if (below(2) == 0) {
      order->remove(row);
      model.erase(there);
    } else {  // evicts
      const BlockId victim = order->next();
      const auto entry = std::ranges::find(model, victim, &Added::row);
      ASSERT_TRUE(entry != model.end());
      order->remove(victim);
      model.erase(entry);
    }
    std::vector<BlockId> rows;
    order->append(rows);
    if (!rows.empty()) ASSERT_EQ(rows.front(), order->next());
    if (eviction == Eviction::lru || eviction == Eviction::lfu) {
      std::ranges::sort(model, [&](const Added& a, const Added& b) { return is_before(eviction, a, b); });
      ASSERT_EQ(rows, rows_of(model));
    }
    std::vector<BlockId> wanted = rows_of(model);
    std::ranges::sort(rows);
    std::ranges::sort(wanted);
    ASSERT_EQ(rows, wanted);
  }
}

BlockId row(std::int32_t number) { return BlockId{number}; }

std::vector<BlockId> goes(EvictionOrder& order) {
  std::vector<BlockId> rows;
  order.append(rows);
  return rows;
}

TEST(CostEviction, IsLruWithoutHintsAndHits) {
  const auto cost = make_cost_eviction(), lru = make_lru_eviction();
  for (int step = 0; step < 60; ++step) {
    const BlockId next = row(step * 7 % 60);
    cost->add(next, {});
    lru->add(next, {});
    if (step % 3 == 0 || step > 40) {
      cost->remove(next);
      lru->remove(next);
    }
  }
  EXPECT_EQ(goes(*cost), goes(*lru));
}

TEST(CostEviction, HitsAndPriorityPutARowOffByAShareOfTheCache) {
  const auto order = make_cost_eviction();
  for (std::int32_t number = 100; number < 140; ++number) order->add(row(number), {});  // it is so large
  for (std::int32_t number = 100; number < 140; ++number) order->remove(row(number));
  for (std::int32_t number = 0; number < 8; ++number) order->add(row(number), {});
  order->add(row(20), {.num_hits = 1});
  order->add(row(21), {.claim = {.priority = 100}});
  order->add(row(22), {.claim = {.priority = 0}});
  for (std::int32_t number = 8; number < 16; ++number) order->add(row(number), {});
  const auto place = [&](std::int32_t number) {
    const std::vector<BlockId> rows = goes(*order);
    return std::ranges::find(rows, row(number)) - rows.begin();
  };
  EXPECT_LT(place(8), place(20)) << "found once, it outlives what was released a little later";
  EXPECT_LT(place(20), place(21));
  EXPECT_LT(place(22), place(7)) << "and of no priority it goes before what was released earlier";
}

TEST(CostEviction, WhatIsExpiredGoesFirstAndWhatIsPinnedLast) {
  const auto order = make_cost_eviction();
  order->set_time(100);
  for (std::int32_t number = 0; number < 8; ++number) order->add(row(number), {});
  order->add(row(20), {.claim = {.expires = 200}});
  order->add(row(21), {.claim = {.pinned_until = 300}});
  order->add(row(22), {});
  EXPECT_EQ(order->next(), row(0));
  EXPECT_EQ(goes(*order).back(), row(21));
  order->set_time(200);
  EXPECT_EQ(order->next(), row(20));
  order->set_time(150);  // late news
  EXPECT_EQ(order->next(), row(20));
  order->remove(row(20));
  EXPECT_EQ(order->next(), row(0));
  order->set_time(300);
  EXPECT_EQ(goes(*order).back(), row(22)) << "a pin has an end";
}

TEST(CostEviction, ATenantsPinsAreHeededForAPartOfTheCache) {
  const auto order = make_cost_eviction();
  for (std::int32_t number = 0; number < 20; ++number)
    order->add(row(number), {.claim = {.owner = {.tenant = 1}, .pinned_until = 1000}});
  for (std::int32_t number = 20; number < 40; ++number) order->add(row(number), {});
  const std::vector<BlockId> rows = goes(*order);
  const auto pinned =
      std::ranges::count_if(std::span(rows).last(10), [](BlockId id) { return index(id) < 20; });
  EXPECT_GT(pinned, 2);
  EXPECT_LT(pinned, 9);
  EXPECT_LT(index(rows.front()), 20);
}

TEST(EvictionOrderProperty, AgreesWithASortedList) {
  for (std::size_t i = 0; i < std::size(kEvictionPolicies); ++i)
    for (std::uint64_t seed = 1; seed <= 50; ++seed) compare_order(static_cast<Eviction>(i), seed);
}

}  // namespace
}  // namespace pagoda
