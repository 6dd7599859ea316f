// Goal: under any order of calls, every eviction order has the rows that were added, next() first, and the
// known ones agree with a list that is sorted anew each time. Method: random operations drawn from one seed.
#include "kv_cache/eviction_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

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

void run(Eviction eviction, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << kEvictionPolicies[static_cast<std::size_t>(eviction)] << ", seed "
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
      order->add(row, {.num_hits = model.back().num_hits});
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

TEST(EvictionOrderProperty, AgreesWithASortedList) {
  for (std::size_t i = 0; i < std::size(kEvictionPolicies); ++i)
    for (std::uint64_t seed = 1; seed <= 50; ++seed) run(static_cast<Eviction>(i), seed);
}

}  // namespace
}  // namespace pagoda
