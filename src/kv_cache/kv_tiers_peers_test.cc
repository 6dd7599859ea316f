// Goal: what peers are asked for, and what becomes of their answers: rows that one has are fetched, and known
// for that long only.
#include <gtest/gtest.h>

#include "kv_cache/tiers_test_support.h"

namespace pagoda {
namespace {

using Arrival = KvTiering::Arrival;
using testing::text;

class Peers : public ::testing::Test {
 protected:
  explicit Peers(std::vector<KvGroup> groups = {{.tokens_per_row = 4}})
      : kv({.block_size = 4,
            .num_blocks = 8,
            .tiers = true,
            .peers = true,
            .model_id = "m",
            .groups = std::move(groups)}) {}

  Arrival begin(SequenceId id, const std::vector<TokenId>& tokens, std::int64_t margin = 0) {
    const CacheOwner owner{.tenant = 7, .session = 8};
    const Arrival out =
        kv.tiering().begin_arrival(id, tokens, CacheUse("", CacheClaim{.owner = owner}), margin);
    kv.inspection().check_invariants();
    return out;
  }
  TierMoves take() { return testing::take_moves(kv); }
  // The first `count` keys are at a peer.
  void answer(const TierAsk& ask, std::size_t count) {
    TierNews news;
    for (std::size_t i = 0; i < count; ++i) news.found.push_back({.key = ask.keys[i], .owner = ask.owner});
    news.done.push_back({.ticket = ask.ticket, .ok = count > 0});
    kv.tiering().on_news(news);
    kv.inspection().check_invariants();
  }
  void answer(const std::vector<TierFetch>& fetches, bool ok) {
    TierNews news;
    for (const TierFetch& fetch : fetches) news.done.push_back({.ticket = fetch.ticket, .ok = ok});
    kv.tiering().on_news(news);
    kv.inspection().check_invariants();
  }
  std::int32_t found(std::uint64_t id, const std::vector<TokenId>& tokens) {
    const std::int32_t count = kv.add_sequence(SequenceId{id}, tokens, CacheUse(""), true);
    kv.free(SequenceId{id});
    return count;
  }

  PagedKvManager kv;
  const SequenceId a{1}, b{2};
};

TEST_F(Peers, AreAskedForARequestsRowsAndThenTheseAreFetched) {
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  TierMoves moves = take();
  ASSERT_EQ(moves.asks.size(), 1u);
  EXPECT_EQ(moves.asks[0].keys.size(), 4u) << "the last token is computed, and so is what fills no row";
  EXPECT_EQ(moves.asks[0].owner, (CacheOwner{.tenant = 7, .session = 8}));
  EXPECT_GT(moves.asks[0].patience_s, 0);
  EXPECT_TRUE(moves.fetches.empty());
  EXPECT_EQ(kv.num_free_blocks(), 8) << "a question holds nothing";
  EXPECT_TRUE(kv.tiering().arriving(a));
  EXPECT_FALSE(kv.tiering().answered(a));
  answer(moves.asks[0], 3);
  EXPECT_FALSE(kv.tiering().arriving(a));
  ASSERT_TRUE(kv.tiering().answered(a));

  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  EXPECT_FALSE(kv.tiering().answered(a));
  moves = take();
  EXPECT_TRUE(moves.asks.empty());
  ASSERT_EQ(moves.fetches.size(), 3u);
  EXPECT_EQ(moves.fetches[0].row.owner, (CacheOwner{.tenant = 7, .session = 8}));
  answer(moves.fetches, true);
  EXPECT_FALSE(kv.tiering().arriving(a));
  kv.tiering().end_arrival(a);
  EXPECT_EQ(found(9, text(0, 18)), 12);
  EXPECT_EQ(take().stores.size(), 3u) << "as if they had been computed here";
}

TEST_F(Peers, WithoutAnAnswerItIsComputed) {
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  answer(take().asks[0], 0);
  ASSERT_TRUE(kv.tiering().answered(a));
  EXPECT_EQ(begin(a, text(0, 18)), Arrival::nothing);
  EXPECT_FALSE(kv.tiering().answered(a));
  EXPECT_TRUE(take().empty());
}

TEST_F(Peers, AreAskedAnewForEachRequest) {
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  answer(take().asks[0], 4);
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  answer(take().fetches, false);
  EXPECT_EQ(begin(b, text(0, 18)), Arrival::begun);
  const TierMoves moves = take();
  EXPECT_EQ(moves.asks.size(), 1u) << "nothing is known of what they had";
  EXPECT_TRUE(moves.fetches.empty());
}

TEST_F(Peers, TwoRequestsOfOneTextShareWhatComes) {
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  ASSERT_EQ(begin(b, text(0, 14)), Arrival::begun);
  const TierMoves asked = take();
  ASSERT_EQ(asked.asks.size(), 2u);
  answer(asked.asks[0], 4);
  answer(asked.asks[1], 3);
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  ASSERT_EQ(begin(b, text(0, 14)), Arrival::begun) << "its rows are known still";
  const TierMoves moves = take();
  EXPECT_EQ(moves.fetches.size(), 4u);
  answer(moves.fetches, true);
  EXPECT_FALSE(kv.tiering().arriving(a));
  EXPECT_FALSE(kv.tiering().arriving(b));
  EXPECT_EQ(found(9, text(0, 18)), 16);
}

TEST_F(Peers, AQuestionEndsWithItsRequest) {
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  kv.tiering().end_arrival(a);
  EXPECT_TRUE(take().asks.empty()) << "it was not taken yet";
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  const TierMoves moves = take();
  kv.tiering().end_arrival(a);
  EXPECT_EQ(take().cancels, std::vector{moves.asks[0].ticket});
  answer(moves.asks[0], 0);
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  answer(take().asks[0], 4);
  kv.tiering().end_arrival(a);
  EXPECT_EQ(begin(b, text(0, 18)), Arrival::begun);
  EXPECT_EQ(take().asks.size(), 1u) << "what was known for the first is forgotten";
}

TEST_F(Peers, WithoutRoomTheAnswerIsKept) {
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  answer(take().asks[0], 4);
  EXPECT_EQ(begin(a, text(0, 18), 5), Arrival::no_room);
  EXPECT_TRUE(kv.tiering().answered(a));
  EXPECT_EQ(begin(a, text(0, 18), 4), Arrival::begun);
  EXPECT_EQ(take().fetches.size(), 4u);
}

TEST_F(Peers, AClearedCacheEndsQuestions) {
  ASSERT_EQ(begin(a, text(0, 18)), Arrival::begun);
  const TierMoves moves = take();
  kv.sharing().clear_prefix_cache();
  EXPECT_TRUE(kv.tiering().answered(a));
  EXPECT_EQ(begin(a, text(0, 18)), Arrival::nothing);
  answer(moves.asks[0], 0);
}

class PeersOfWindows : public Peers {
 protected:
  PeersOfWindows()
      : Peers({{.tokens_per_row = 4}, {.kind = KvKind::window, .window = 6, .tokens_per_row = 4}}) {}
};

TEST_F(PeersOfWindows, AreAskedForTheRowsOfEveryGroup) {
  ASSERT_EQ(begin(a, text(0, 14)), Arrival::begun);
  const TierMoves moves = take();
  ASSERT_EQ(moves.asks.size(), 1u);
  EXPECT_EQ(moves.asks[0].keys.size(), 6u);
  EXPECT_EQ(moves.asks[0].keys[0].group, 0);
  EXPECT_EQ(moves.asks[0].keys[1].group, 1);
  EXPECT_EQ(moves.asks[0].keys[0].chain, moves.asks[0].keys[1].chain);
}

}  // namespace
}  // namespace pagoda
