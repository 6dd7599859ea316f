#include "kv_cache/block_tables.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kv_cache/tables_test_support.h"

namespace pagoda {
namespace {

// Goal: whatever the order of growing, computing, shrinking, forking and leaving, each table has the rows
// that its lengths call for, writes into no row that another one holds, and the account is that of a walk.
// Method: the rows of a sequence are counted from its lengths alone, and holders from all tables.
void compare_tables(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  const std::int32_t size = 1 + below(5);
  testing::Tables of(size, testing::draw_token_groups(rng, size, below(2) == 0, below(2) == 0), 60);
  const std::vector<KvGroup>& groups = of.geometry.groups();
  for (int step = 0; step < 200; ++step) {
    const auto any = [&] { return std::next(of.all.begin(), below(of.all.size())); };
    switch (below(5)) {
      case 0:
        of.add();
        break;
      case 1: {  // a step of some tokens, with room for drafts that are rejected
        if (of.all.empty()) break;
        BlockTable& table = *any();
        const std::int32_t target = table.num_computed + 1 + below(6), room = target + below(4);
        const std::int64_t needed = of.tables.pages_to_grow(table, room);
        if (needed > of.pool.num_free()) break;
        const std::int64_t before = of.pool.num_free();
        std::vector<BlockCopy> copies;
        of.grow(table, room, copies);
        ASSERT_EQ(of.pool.num_free(), before - needed);
        for (const BlockCopy& copy : copies) ASSERT_EQ(of.pool.ref_count(copy.to), 1);
        for (std::size_t group = 0; group < groups.size(); ++group)
          for (std::int32_t i = of.tables.next_row(table, group); i < table.groups[group].end; ++i)
            ASSERT_EQ(of.pool.ref_count(of.tables.row(table, group, i)), 1) << "it is written into";
        of.tables.set_lengths(table, target, table.num_tokens);
        of.tables.shrink(table, target);
        of.tables.give_back(table);
        break;
      }
      case 2:
        if (!of.all.empty() && of.all.size() < 12) of.fork(*any());
        break;
      case 3: {
        if (of.all.empty()) break;
        const auto table = any();
        of.tables.release_all(*table);
        of.all.erase(table);
        break;
      }
      case 4: {  // the beginning of another one, as far as its windows still have it
        if (of.all.empty() || of.geometry.has_states()) break;
        const BlockTable& from = *any();
        const std::int32_t whole = from.num_computed / size;
        bool there = true;
        for (std::size_t group = 0; group < groups.size(); ++group)
          there &= groups[group].first_visible_row(whole * size) >= from.groups[group].first;
        if (!there) break;
        BlockTable& child = of.add();
        for (std::size_t group = 0; group < groups.size(); ++group)
          of.tables.share_rows(from.groups[group], group, groups[group].first_visible_row(whole * size),
                               whole, child);
        of.tables.set_lengths(child, whole * size, whole * size);
        break;
      }
    }
    std::map<BlockId, std::int32_t> holders;
    for (const BlockTable& table : of.all) {
      of.tables.check(table);
      for (std::size_t group = 0; group < groups.size(); ++group) {
        const KvTable pages = of.tables.pages_of(table, group);
        ASSERT_EQ(std::ssize(pages.blocks), (of.tables.rows_for(group, table.num_tokens) - pages.first_row) *
                                                groups[group].pages_per_row);
        for (const BlockId page : pages.blocks) ++holders[page];
      }
    }
    for (const auto& [page, count] : holders) ASSERT_EQ(of.pool.ref_count(page), count);
    ASSERT_EQ(of.pool.num_free(), 60 - std::ssize(holders));
    ASSERT_EQ(of.tables.total(of.each()), of.tables.walk(of.each()));
    of.pool.check_invariants();
  }
}

TEST(BlockTablesProperty, RowsAreThoseThatTheLengthsCallFor) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    compare_tables(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pagoda
