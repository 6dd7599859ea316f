// Goal: tiers that are full and small beside the pool keep other rows than the pool does. Method: a pool of
// eight rows, of which one is to be evictable without loss, and tiers that have dropped a row.
#include <gtest/gtest.h>

#include "kv_cache/kv_tiers.h"
#include "kv_cache/tiers_test_support.h"

namespace pagoda {
namespace {

using Arrival = KvTiering::Arrival;
using testing::text;

class SmallTiers : public ::testing::Test {
 protected:
  // The tiers have the first 12 of these 16 tokens, and the pool has all.
  SmallTiers() {
    serve(1, text(0, 16));
    const TierMoves moves = take();
    answer(moves.stores);
    kv.tiering().on_news({.found = {}, .done = {}, .gone = {{.key = moves.stores[0].row.key, .tiers = 1}}});
  }

  void serve(std::uint64_t id, const std::vector<TokenId>& tokens) {
    std::vector<BlockCopy> copies;
    (void)kv.add_sequence(SequenceId{id}, tokens, "", true);
    ASSERT_TRUE(kv.grow(SequenceId{id}, static_cast<std::int32_t>(tokens.size()), copies));
    kv.computed(SequenceId{id}, tokens, static_cast<std::int32_t>(tokens.size()));
    kv.free(SequenceId{id});
    kv.inspection().check_invariants();
  }
  TierMoves take() { return testing::take_moves(kv); }
  template <class Records>
  void answer(const Records& records, bool ok = true) {
    TierNews news;
    for (const auto& record : records)
      news.done.push_back({.ticket = record.ticket, .ok = ok, .tiers = ok ? 1u : 0u});
    kv.tiering().on_news(news);
    kv.inspection().check_invariants();
  }
  std::int32_t in_pool(const std::vector<TokenId>& tokens) {
    const std::int32_t count = kv.add_sequence(SequenceId{1000}, tokens, "", true);
    kv.free(SequenceId{1000});
    return count;
  }
  // Fills the pool with rows that no tier has.
  void fill() {
    serve(2, text(100, 16));
    serve(3, text(200, 12));
    ASSERT_TRUE(take().stores.empty());
  }

  PagedKvManager kv{{.block_size = 4, .num_blocks = 8, .tiers = true, .model_id = "m"}};
  const SequenceId a{50};
};

TEST_F(SmallTiers, RowsThatATierHasAreEvictedFirstThoughTheyWereUsedLater) {
  serve(2, text(100, 16));
  EXPECT_TRUE(take().stores.empty()) << "four rows can go without loss";
  EXPECT_EQ(kv.parts().pool.num_held_back(), 4);
  EXPECT_EQ(in_pool(text(0, 13)), 12);
  serve(3, text(200, 12));
  EXPECT_EQ(in_pool(text(100, 17)), 16);
  EXPECT_LT(in_pool(text(0, 13)), 12);
}

TEST_F(SmallTiers, TheOldestIsStoredWhenTooFewCanGoWithoutLoss) {
  fill();
  EXPECT_EQ(kv.parts().pool.num_held_back(), 7);
  EXPECT_EQ(in_pool(text(100, 17)), 16);
  take();
  serve(4, text(300, 4));
  const TierMoves moves = take();
  ASSERT_EQ(moves.stores.size(), 1u);
  EXPECT_EQ(moves.stores[0].row.tokens, text(208, 4)) << "the end of the text that was used longest ago";
  serve(5, text(400, 4));
  EXPECT_EQ(take().cancels.size(), 1u) << "evicted before it was stored";
  EXPECT_EQ(in_pool(text(100, 17)), 16);
}

// So a tier that orders rows by their use drops what was used longest ago.
TEST_F(SmallTiers, AStoredRowHasTheUseOfItsLastUser) {
  fill();
  EXPECT_EQ(in_pool(text(0, 5)), 4);
  const TierMoves touched = take();
  ASSERT_EQ(touched.touches.size(), 1u);
  serve(4, text(300, 4));
  const TierMoves moves = take();
  ASSERT_EQ(moves.stores.size(), 1u);
  EXPECT_LT(moves.stores[0].row.use, touched.touches[0].use);
}

TEST_F(SmallTiers, AnArrivalWaitsUntilTheRowsInItsPlaceAreStored) {
  fill();
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 13), "", 0), Arrival::begun);
  EXPECT_TRUE(kv.tiering().arriving(a));
  const TierMoves moves = take();
  EXPECT_TRUE(moves.fetches.empty());
  ASSERT_EQ(moves.stores.size(), 2u);
  ASSERT_EQ(moves.asks.size(), 1u);
  EXPECT_TRUE(moves.asks[0].keys.empty());
  EXPECT_GT(moves.asks[0].patience_s, 0);
  EXPECT_FALSE(moves.touches.empty()) << "they are not to go for what is stored";
  answer(std::span(moves.stores).first(1));
  EXPECT_FALSE(kv.tiering().answered(a));
  answer(std::span(moves.stores).last(1));
  ASSERT_TRUE(kv.tiering().answered(a));
  EXPECT_FALSE(kv.tiering().arriving(a));
  EXPECT_EQ(take().cancels.size(), 1u) << "the timer";
  answer(moves.asks, false);
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 13), "", 0), Arrival::begun);
  const TierMoves fetched = take();
  ASSERT_EQ(fetched.fetches.size(), 2u) << "the first row is in the pool still";
  answer(fetched.fetches);
  kv.tiering().end_arrival(a);
  EXPECT_EQ(in_pool(text(0, 13)), 12);
}

TEST_F(SmallTiers, AnArrivalWaitsForStoresAsLongAsItsTimerRuns) {
  fill();
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 13), "", 0), Arrival::begun);
  const TierMoves moves = take();
  answer(moves.asks, false);
  ASSERT_TRUE(kv.tiering().answered(a));
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 13), "", 0), Arrival::begun);
  EXPECT_EQ(take().fetches.size(), 2u);
  answer(moves.stores);
}

TEST_F(SmallTiers, AnArrivalThatEndsWaitsNoMore) {
  fill();
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 13), "", 0), Arrival::begun);
  const TierMoves moves = take();
  kv.tiering().end_arrival(a);
  EXPECT_EQ(take().cancels.size(), 1u);
  answer(moves.stores);
  answer(moves.asks, false);
  ASSERT_EQ(kv.tiering().begin_arrival(a, text(0, 13), "", 0), Arrival::begun);
  kv.tiering().end_arrival(a);  // before any of it was taken
  EXPECT_TRUE(take().asks.empty());
}

TEST_F(SmallTiers, ARowThatIsRefusedGoesLikeAnyOther) {
  fill();
  serve(4, text(300, 4));
  answer(take().stores, false);
  serve(5, text(400, 4));
  EXPECT_EQ(in_pool(text(100, 17)), 12) << "the end of the oldest text went";
  EXPECT_EQ(kv.parts().pool.num_held_back(), 7);
}

TEST_F(SmallTiers, AClearedCacheHoldsNothingBack) {
  fill();
  kv.sharing().clear_prefix_cache();
  kv.inspection().check_invariants();
  EXPECT_EQ(kv.parts().pool.num_held_back(), 0);
  serve(4, text(100, 8));
  EXPECT_EQ(take().stores.size(), 2u) << "the tiers are empty";
}

TEST(LargeTiers, KeepWhatThePoolHas) {
  PagedKvManager kv({.block_size = 4, .num_blocks = 8, .tiers = true, .model_id = "m"});
  TierNews news;
  for (std::uint64_t i = 0; i < 18; ++i)
    news.found.push_back({.key = {.chain = {i}}, .owner = {}, .tiers = 1});
  news.gone.push_back({.key = {.chain = {0}}, .tiers = 1});
  kv.tiering().on_news(news);
  std::vector<BlockCopy> copies;
  const std::vector<TokenId> tokens = text(0, 8);
  (void)kv.add_sequence(SequenceId{1}, tokens, "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 8, copies));
  kv.computed(SequenceId{1}, tokens, 8);
  kv.free(SequenceId{1});
  EXPECT_EQ(testing::take_moves(kv).stores.size(), 2u);
}

}  // namespace
}  // namespace pagoda
