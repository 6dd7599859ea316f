#include "kv_cache/swap_space.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kv_cache/tables_test_support.h"

namespace pagoda {
namespace {

// Goal: whatever is swapped out and in, each table finds in its rows what it had there, what was shared is
// shared again and copied once. Method: a naive pool and a naive swap space hold a number for each page,
// moved as the copies say.
void compare_swaps(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  const std::int32_t size = 1 + below(4);
  constexpr std::int32_t kNumBlocks = 60, kNumSwap = 40;
  testing::Tables of(size, testing::draw_token_groups(rng, size, below(2) == 0, below(2) == 0), kNumBlocks);
  SwapSpace swap(of.geometry, of.tables, kNumSwap);
  std::vector<std::uint64_t> pool(kNumBlocks), stored(kNumSwap);
  std::map<const BlockTable*, std::vector<std::uint64_t>> written;  // contents of each table's computed pages
  const auto computed_pages = [&](const BlockTable& table) {
    std::vector<BlockId> out;
    for (std::size_t group = 0; group < of.geometry.groups().size(); ++group) {
      const KvTable pages = of.tables.pages_of(table, group);
      const auto count = (of.tables.rows_for(group, table.num_computed) - pages.first_row) *
                         of.geometry.groups()[group].pages_per_row;
      out.insert(out.end(), pages.blocks.begin(), pages.blocks.begin() + count);
    }
    return out;
  };
  const auto gang_of = [&](bool swapped) {
    std::vector<BlockTable*> gang;
    for (BlockTable& table : of.all)
      if (table.swapped == swapped && table.num_computed > 0 && below(2) == 0) gang.push_back(&table);
    return gang;
  };
  for (int step = 0; step < 100; ++step) {
    switch (below(4)) {
      case 0: {  // somebody computes, and writes numbers of its own
        if (of.all.size() < 6) of.add();
        BlockTable& table = *std::next(of.all.begin(), below(of.all.size()));
        const std::int32_t target = table.num_computed + 1 + below(5);
        if (table.swapped || of.tables.pages_to_grow(table, target) > of.pool.num_free()) break;
        of.compute(table, target);
        written[&table].clear();
        for (const BlockId page : computed_pages(table)) {
          // Only what nobody else holds is written into; the rest keeps what it has.
          if (of.pool.ref_count(page) == 1) pool[as_size(index(page))] = rng();
          written[&table].push_back(pool[as_size(index(page))]);
        }
        break;
      }
      case 1: {
        if (of.all.empty() || of.all.size() > 6) break;
        const BlockTable& parent = *std::next(of.all.begin(), below(of.all.size()));
        if (parent.swapped || parent.num_computed == 0) break;
        const BlockTable& child = of.fork(parent);
        written[&child] = written[&parent];
        break;
      }
      case 2: {
        const std::vector<BlockTable*> gang = gang_of(false);
        const std::vector<const BlockTable*> tables(gang.begin(), gang.end());
        std::set<BlockId> pages;
        for (const BlockTable* table : tables)
          for (const BlockId page : computed_pages(*table)) pages.insert(page);
        const std::int64_t cost = SwapSpace::cost(of.geometry, of.tables, tables).pages;
        ASSERT_EQ(cost, std::ssize(pages));
        if (cost > swap.num_free()) break;
        const std::int64_t before = swap.num_free();
        SwapSpace::Moved moved;
        std::vector<SwapCopy> copies;
        for (BlockTable* table : gang) {
          std::vector<GroupRows> rows = swap.store(*table, moved, copies);
          of.tables.release_all(*table);
          table->groups = std::move(rows);
          table->num_tokens = table->num_computed;
          table->swapped = true;
        }
        ASSERT_EQ(std::ssize(copies), cost);
        ASSERT_EQ(swap.num_free(), before - cost);
        for (const SwapCopy& copy : copies)
          stored.at(static_cast<std::size_t>(copy.swap_block)) = pool.at(as_size(index(copy.block)));
        break;
      }
      case 3: {
        const std::vector<BlockTable*> gang = gang_of(true);
        const std::vector<const BlockTable*> tables(gang.begin(), gang.end());
        if (SwapSpace::cost(of.geometry, of.tables, tables).pages > of.pool.num_free()) break;
        SwapSpace::Moved moved;
        std::vector<SwapCopy> copies;
        for (BlockTable* table : gang) {
          std::vector<GroupRows> rows = swap.load(*table, of.pool, moved, copies);
          swap.release(*table);
          table->groups = std::move(rows);
          table->swapped = false;
          of.tables.hold_all(*table);
        }
        for (const SwapCopy& copy : copies)
          pool.at(as_size(index(copy.block))) = stored.at(static_cast<std::size_t>(copy.swap_block));
        break;
      }
    }
    std::vector<const BlockTable*> swapped;
    for (const BlockTable& table : of.all) {
      if (table.swapped) swapped.push_back(&table);
      if (table.swapped || table.num_computed == 0) continue;
      std::vector<std::uint64_t> found;
      for (const BlockId page : computed_pages(table)) found.push_back(pool[as_size(index(page))]);
      if (found.size() == written[&table].size()) ASSERT_EQ(found, written[&table]);
    }
    swap.check_invariants(swapped);
    of.pool.check_invariants();
    ASSERT_EQ(of.tables.total(of.each()), of.tables.walk(of.each()));
  }
}

TEST(SwapSpaceProperty, WhatComesBackIsWhatLeft) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    compare_swaps(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pagoda
