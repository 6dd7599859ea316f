// Goal: which rows are stored, fetched, touched and cancelled, and what a pool holds meanwhile. The property
// test over whole engines is engine/kv_tiers_test.cc.
#include "kv_cache/kv_tiers.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

#include "kv_cache/tiers_test_support.h"

namespace pagoda {
namespace {

using Arrival = KvTiering::Arrival;
using testing::text;

class Tiers : public ::testing::Test {
 protected:
  Tiers() : Tiers({{.tokens_per_row = 4}}, 8) {}
  Tiers(std::vector<KvGroup> groups, std::int32_t num_blocks)
      : kv({.block_size = 4,
            .num_blocks = num_blocks,
            .tiers = true,
            .model_id = "m",
            .groups = std::move(groups)}) {}

  // Computes a text and forgets the sequence.
  void serve(std::uint64_t id, const std::vector<TokenId>& tokens, const CacheOwner& owner = {}) {
    std::vector<BlockCopy> copies;
    const auto length = static_cast<std::int32_t>(tokens.size());
    (void)kv.add_sequence(SequenceId{id}, tokens, CacheUse("", CacheClaim{.owner = owner}), true);
    ASSERT_TRUE(kv.grow(SequenceId{id}, length, copies));
    std::vector<StateCopy> passed;
    kv.copy_states(SequenceId{id}, 0, length, passed);
    kv.computed(SequenceId{id}, tokens, length);
    kv.free(SequenceId{id});
    kv.inspection().check_invariants();
  }
  TierMoves take() { return testing::take_moves(kv); }
  template <class Records>
  void answer(const Records& records, bool ok) {
    TierNews news;
    for (const auto& record : records) news.done.push_back({.ticket = record.ticket, .ok = ok});
    kv.tiering().on_news(news);
    kv.inspection().check_invariants();
  }
  // Serves the text, has it stored, and then evicts all of it.
  void serve_and_evict(const std::vector<TokenId>& tokens) {
    serve(100, tokens);
    answer(take().stores, true);
    serve(101, text(1000, 32));
    answer(take().stores, false);
  }
  std::int32_t found(std::uint64_t id, const std::vector<TokenId>& tokens, const CacheOwner& owner = {}) {
    const std::int32_t count =
        kv.add_sequence(SequenceId{id}, tokens, CacheUse("", CacheClaim{.owner = owner}), true);
    kv.free(SequenceId{id});
    return count;
  }

  PagedKvManager kv;
  const SequenceId a{1}, b{2};
};

TEST_F(Tiers, FullRowsAreStoredOnceWhenNobodyUsesThemAnyMore) {
  serve(1, text(0, 10));
  const TierMoves moves = take();
  ASSERT_EQ(moves.stores.size(), 2u) << "the last two tokens fill no row";
  EXPECT_EQ(moves.stores[0].row.tokens, text(4, 4)) << "the end of the text first";
  EXPECT_EQ(moves.stores[1].row.tokens, text(0, 4));
  EXPECT_LT(moves.stores[0].row.use, moves.stores[1].row.use);
  EXPECT_EQ(kv.parts().pool.num_leaving(), 2);
  EXPECT_EQ(kv.num_free_blocks(), 8) << "they can be evicted like any other";
  answer(moves.stores, true);
  EXPECT_EQ(kv.parts().pool.num_leaving(), 0);
  serve(2, text(0, 10));
  const TierMoves again = take();
  EXPECT_TRUE(again.stores.empty());
  EXPECT_EQ(again.touches.size(), 2u);
}

TEST_F(Tiers, ARowThatIsEvictedWhileItLeavesHasItsStoreCancelled) {
  serve(1, text(0, 8));
  const TierMoves first = take();
  ASSERT_EQ(first.stores.size(), 2u);
  serve(2, text(50, 32));  // takes all blocks
  const TierMoves moves = take();
  ASSERT_EQ(moves.cancels.size(), 2u);
  EXPECT_EQ(moves.stores.size(), 8u);
  // One was done before it could be cancelled.
  kv.tiering().on_news(
      {.found = {}, .done = {{first.stores[1].ticket, true}, {first.stores[0].ticket, false}}, .gone = {}});
  EXPECT_EQ(kv.tiering().begin_arrival(a, text(0, 9), "", 0), Arrival::begun);
  EXPECT_EQ(take().fetches.size(), 1u);
}

TEST_F(Tiers, OneThatWasNotTakenYetNeverHappens) {
  serve(1, text(0, 8));
  serve(2, text(50, 32));
  const TierMoves moves = take();
  EXPECT_TRUE(moves.cancels.empty());
  EXPECT_EQ(moves.stores.size(), 8u);
}

TEST_F(Tiers, WhatArrivesIsFoundWhenAllHasCome) {
  serve_and_evict(text(0, 16));
  EXPECT_EQ(found(9, text(0, 17)), 0);
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 17), "", 0), Arrival::begun);
  const TierMoves moves = take();
  ASSERT_EQ(moves.fetches.size(), 4u);
  EXPECT_EQ(moves.fetches.front().row.tokens, text(0, 4)) << "from the beginning on";
  EXPECT_GT(moves.fetches.front().patience_s, 0);
  EXPECT_EQ(kv.num_free_blocks(), 4);
  EXPECT_TRUE(kv.tiering().arriving(a));
  EXPECT_EQ(found(9, text(0, 17)), 0) << "not readable yet";
  answer(std::vector(moves.fetches.begin(), moves.fetches.end() - 1), true);
  EXPECT_TRUE(kv.tiering().arriving(a));
  answer(std::vector(moves.fetches.end() - 1, moves.fetches.end()), true);
  EXPECT_FALSE(kv.tiering().arriving(a));
  EXPECT_EQ(kv.num_free_blocks(), 8);
  EXPECT_EQ(found(9, text(0, 17)), 16);
  EXPECT_EQ(kv.tiering().begin_arrival(b, text(0, 17), "", 0), Arrival::nothing) << "it is in the pool";
}

TEST_F(Tiers, ALostRowIsForgottenAndThoseBeforeItAreOfUse) {
  serve_and_evict(text(0, 16));
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 17), "", 0), Arrival::begun);
  const TierMoves moves = take();
  for (std::size_t i = 0; i < 4; ++i) answer(std::vector{moves.fetches[i]}, i != 2);
  EXPECT_FALSE(kv.tiering().arriving(a));
  EXPECT_EQ(found(9, text(0, 17)), 8);
  EXPECT_EQ(kv.tiering().begin_arrival(b, text(0, 17), "", 0), Arrival::nothing);
}

TEST_F(Tiers, GivenUpItsBlocksAreFreeAtOnce) {
  serve_and_evict(text(0, 16));
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 17), "", 0), Arrival::begun);
  const TierMoves moves = take();
  kv.tiering().end_arrival(a);
  EXPECT_EQ(kv.num_free_blocks(), 8);
  EXPECT_EQ(take().cancels.size(), 4u);
  answer(moves.fetches, true);  // too late
  EXPECT_EQ(found(9, text(0, 17)), 0);
  EXPECT_EQ(kv.tiering().begin_arrival(b, text(0, 17), "", 0), Arrival::begun) << "the tier still has it";
}

TEST_F(Tiers, TwoThatWantTheSameRowsShareThem) {
  serve_and_evict(text(0, 16));
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 13), "", 0), Arrival::begun);
  ASSERT_EQ(kv.tiering().begin_arrival(b, text(0, 17), "", 0), Arrival::begun);
  const TierMoves moves = take();
  EXPECT_EQ(moves.fetches.size(), 4u);
  kv.tiering().end_arrival(a);
  EXPECT_TRUE(take().cancels.empty()) << "b still waits for its rows";
  answer(moves.fetches, true);
  EXPECT_EQ(found(9, text(0, 17)), 16);
}

TEST_F(Tiers, WithoutRoomNothingChanges) {
  serve_and_evict(text(0, 16));
  EXPECT_EQ(kv.tiering().begin_arrival(a, text(0, 17), "", 5), Arrival::no_room);
  EXPECT_TRUE(take().fetches.empty());
  EXPECT_EQ(kv.num_free_blocks(), 8);
  EXPECT_EQ(kv.tiering().begin_arrival(a, text(0, 17), "", 4), Arrival::begun);
}

TEST_F(Tiers, SaltsAndTokensKeepTextsApart) {
  serve_and_evict(text(0, 16));
  EXPECT_EQ(kv.tiering().begin_arrival(a, text(0, 17), "other", 0), Arrival::nothing);
  EXPECT_EQ(kv.tiering().begin_arrival(a, text(1, 17), "", 0), Arrival::nothing);
}

TEST_F(Tiers, AClearedCacheForgetsWhatTiersHaveAndWhatIsOnItsWay) {
  serve_and_evict(text(0, 16));
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 17), "", 0), Arrival::begun);
  const TierMoves moves = take();
  answer(std::vector{moves.fetches[0]}, true);
  kv.sharing().clear_prefix_cache();
  kv.inspection().check_invariants();
  EXPECT_FALSE(kv.tiering().arriving(a));
  answer(moves.fetches, true);
  EXPECT_EQ(found(9, text(0, 17)), 0);
  EXPECT_EQ(kv.tiering().begin_arrival(b, text(0, 17), "", 0), Arrival::nothing);
}

TEST_F(Tiers, RowsThatATierHadBeforeTheStartAreAskedFor) {
  serve(1, text(0, 8));
  const TierMoves moves = take();
  TierNews news;
  std::vector<TierGone> gone;
  for (const TierStore& store : moves.stores) {
    news.found.push_back({.key = store.row.key, .owner = {}, .tiers = 1});
    gone.push_back({.key = store.row.key, .tiers = 1});
  }
  PagedKvManager restarted({.block_size = 4, .num_blocks = 8, .tiers = true, .model_id = "m"});
  restarted.tiering().on_news(news);
  EXPECT_EQ(restarted.tiering().begin_arrival(a, text(0, 9), "", 0), Arrival::begun);
  restarted.tiering().end_arrival(a);
  restarted.tiering().on_news({.found = {}, .done = {}, .gone = gone});
  EXPECT_EQ(restarted.tiering().begin_arrival(a, text(0, 9), "", 0), Arrival::nothing);
}

std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::size_t num_erased(PagedKvManager& kv, const CacheOwner& owner) {
  const std::size_t count = kv.sharing().erase_from_cache(owner).keys.size();
  kv.inspection().check_invariants();
  return count;
}

TEST_F(Tiers, AnOwnersRowsAreErasedAndThoseThatOthersUseStay) {
  constexpr CacheOwner kFirst{.tenant = 1, .session = 10}, kSecond{.tenant = 1, .session = 11};
  const std::vector<TokenId> system = text(0, 4);
  serve(1, system + text(100, 5), kFirst);
  serve(2, system + text(200, 5), kSecond);
  answer(take().stores, true);
  EXPECT_EQ(num_erased(kv, {.tenant = 2, .session = 10}), 0u) << "another tenant's session of this name";
  EXPECT_EQ(num_erased(kv, kFirst), 1u);
  EXPECT_EQ(found(3, system + text(100, 5), kSecond), 4) << "the system prompt is the tenant's by now";
  EXPECT_EQ(found(4, system + text(200, 5), kSecond), 8);
  EXPECT_EQ(kv.tiering().begin_arrival(a, system + text(100, 5), "", 0), Arrival::nothing);
  EXPECT_EQ(num_erased(kv, {.tenant = 1, .session = 0}), 2u);
  EXPECT_EQ(found(5, system + text(200, 5)), 0);
}

TEST_F(Tiers, WhatSeveralTenantsUseIsNobodys) {
  serve(1, text(0, 4), {.tenant = 1, .session = 10});
  serve(2, text(0, 4) + text(50, 4), {.tenant = 2, .session = 10});
  EXPECT_EQ(num_erased(kv, {.tenant = 1, .session = 0}), 0u);
  EXPECT_EQ(found(3, text(0, 9)), 4);
}

TEST_F(Tiers, AnErasedRowThatWasOnItsWayToATierIsNotKnown) {
  constexpr CacheOwner kOwner{.tenant = 1, .session = 10};
  serve(1, text(0, 8), kOwner);
  const TierMoves moves = take();
  EXPECT_EQ(num_erased(kv, kOwner), 2u);
  EXPECT_EQ(take().cancels.size(), 2u);
  answer(moves.stores, true);  // it had been copied by then
  EXPECT_EQ(kv.tiering().begin_arrival(a, text(0, 9), "", 0), Arrival::nothing);
  serve(2, text(0, 8), {.tenant = 1, .session = 11});
  EXPECT_EQ(take().stores.size(), 2u);
}

// Rows that come back are whose they were, and rows that were there before the start, too.
TEST_F(Tiers, OwnersOutliveThePool) {
  constexpr CacheOwner kOwner{.tenant = 1, .session = 10};
  serve(1, text(0, 8), kOwner);
  const TierMoves moves = take();
  EXPECT_EQ(moves.stores.front().row.owner, kOwner);
  TierNews news;
  for (const TierStore& store : moves.stores)
    news.found.push_back({.key = store.row.key, .owner = store.row.owner});
  PagedKvManager restarted({.block_size = 4, .num_blocks = 8, .tiers = true, .model_id = "m"});
  restarted.tiering().on_news(news);
  ASSERT_EQ(restarted.tiering().begin_arrival(a, text(0, 9), "", 0), Arrival::begun);
  TierMoves back;
  restarted.tiering().take(back);
  TierNews came;
  for (const TierFetch& fetch : back.fetches) came.done.push_back({.ticket = fetch.ticket, .ok = true});
  restarted.tiering().on_news(came);
  restarted.tiering().end_arrival(a);
  EXPECT_EQ(num_erased(restarted, kOwner), 2u);
  EXPECT_EQ(restarted.add_sequence(b, text(0, 9), "", true), 0);
}

// Records the events of tiers.
struct Told final : CacheObserver {
  void on_stored(const Stored&) override {}
  void on_removed(const BlockHash&) override {}
  void on_tier_stored(std::size_t tier, const BlockHash& hash) override {
    EXPECT_TRUE(rows.emplace(tier, hash.words).second) << "told twice";
  }
  void on_tier_removed(std::size_t tier, const BlockHash& hash) override {
    EXPECT_EQ(rows.erase({tier, hash.words}), 1u);
  }
  void on_cleared() override { rows.clear(); }
  void end_step() override {}
  std::set<std::pair<std::size_t, std::array<std::uint64_t, 4>>> rows;
};

TEST_F(Tiers, WhatEachTierHasIsTold) {
  Told told;
  kv.sharing().set_cache_observer(&told);
  constexpr CacheOwner kOwner{.tenant = 1, .session = 10};
  serve(1, text(0, 8), kOwner);
  const TierMoves moves = take();
  ASSERT_EQ(moves.stores.size(), 2u);
  const TierKey first = moves.stores[1].row.key, second = moves.stores[0].row.key;
  using Rows = decltype(told.rows);
  TierNews news{.found = {},
                .done = {{.ticket = moves.stores[0].ticket, .ok = true, .tiers = 0b10},
                         {.ticket = moves.stores[1].ticket, .ok = true, .tiers = 0b11}},
                .gone = {}};
  kv.tiering().on_news(news);
  EXPECT_EQ(told.rows, (Rows{{0, first.chain}, {1, first.chain}, {1, second.chain}}));
  news = {.found = {{.key = second, .owner = kOwner, .tiers = 0b11}},
          .done = {},
          .gone = {{.key = first, .tiers = 0b10}}};
  kv.tiering().on_news(news);
  EXPECT_EQ(told.rows, (Rows{{0, first.chain}, {0, second.chain}, {1, second.chain}}));
  news = {.found = {}, .done = {}, .gone = {{.key = first, .tiers = 0b01}}};
  kv.tiering().on_news(news);
  kv.tiering().on_news(news);
  EXPECT_EQ(told.rows, (Rows{{0, second.chain}, {1, second.chain}}));
  EXPECT_EQ(num_erased(kv, kOwner), 1u) << "the second alone is known";
  EXPECT_TRUE(told.rows.empty());
}

class TiersOfGroups : public Tiers {
 protected:
  TiersOfGroups()
      : Tiers({{.tokens_per_row = 4},
               {.kind = KvKind::window, .window = 6, .tokens_per_row = 4, .pages_per_row = 2},
               {.kind = KvKind::state, .tokens_per_row = 4, .pages_per_row = 3}},
              40) {}
};

TEST_F(TiersOfGroups, RowsOfEveryGroupAreErased) {
  constexpr CacheOwner kOwner{.tenant = 1, .session = 10};
  serve(1, text(0, 20), kOwner);
  const std::size_t stored = take().stores.size();
  EXPECT_EQ(num_erased(kv, kOwner), stored);
  EXPECT_EQ(kv.parts().pool.num_published(), 0);
  EXPECT_EQ(found(2, text(0, 21)), 0);
}

TEST_F(TiersOfGroups, AWindowsRowsAndAStateComeWithTheFullRows) {
  serve(1, text(0, 20));
  answer(take().stores, true);
  for (std::uint64_t i = 2; i < 9; ++i) {
    serve(i, text(static_cast<TokenId>(1000 * i), 32));
    answer(take().stores, false);
  }
  ASSERT_EQ(found(50, text(0, 21)), 0);
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 21), "", 0), Arrival::begun);
  const TierMoves moves = take();
  std::array<int, 3> rows{};
  for (const TierFetch& fetch : moves.fetches) ++rows.at(static_cast<std::size_t>(fetch.row.key.group));
  EXPECT_EQ(rows[0], 5);
  EXPECT_EQ(rows[1], 2) << "those that the next position sees";
  EXPECT_EQ(rows[2], 1);
  // Out of order: a window's row is of no use before its full row is there.
  answer(std::vector(moves.fetches.rbegin(), moves.fetches.rend()), true);
  EXPECT_EQ(found(51, text(0, 21)), 20);
}

}  // namespace
}  // namespace pagoda
