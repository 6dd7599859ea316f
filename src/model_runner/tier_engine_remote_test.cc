// Goal: rows of another process are asked for and fetched beside those of local tiers, which keep a copy; and
// rows of local tiers are given away, also those that are just being stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "model_runner/host_tier.h"
#include "model_runner/test_tier_news.h"
#include "model_runner/tier_engine.h"

namespace pagoda {
namespace {

constexpr std::size_t kRowBytes = 64;

TierKey key(std::uint64_t name) { return {.chain = {name, 0, 0, 0}, .group = 0}; }
TierRow named_row(std::uint64_t name, std::uint64_t use) {
  return {.key = key(name), .tokens = {static_cast<TokenId>(name)}, .use = use};
}

// Another process, whose rows are full of their name. It can be held up.
class Remote final : public KvTier {
 public:
  struct State {
    std::set<std::uint64_t> rows;
    std::shared_future<void> may_answer;
    std::promise<void> asked = {};
    bool stopped = false;
  };
  explicit Remote(State& state) : state_(state) {}
  std::string_view medium() const override { return "REMOTE"; }
  bool lookup(const TierKey& key) const override { return state_.rows.contains(key.chain[0]); }
  bool fetch(const TierRow& what, std::span<std::byte> bytes) override {
    hold_up();
    std::ranges::fill(bytes, static_cast<std::byte>(what.key.chain[0]));
    return lookup(what.key);
  }
  bool store(const TierRow&, std::span<const std::byte>, std::vector<TierKey>&) override {
    ADD_FAILURE();
    return false;
  }
  Status erase(const TierErase&) override { return ok_status(); }
  void erase_all() override {}
  bool is_remote() const override { return true; }
  void ask(const TierAsk& ask, TimeNs, std::vector<TierKey>& found) override {
    hold_up();
    for (const TierKey& key : ask.keys)
      if (lookup(key)) found.push_back(key);
  }
  void stop() override { state_.stopped = true; }

 private:
  void hold_up() {
    if (!state_.may_answer.valid()) return;
    state_.asked.set_value();
    state_.may_answer.wait();
  }
  State& state_;
};

class RemoteEngine : public ::testing::Test {
 protected:
  void start(std::int64_t host_pages) {
    std::vector<std::shared_ptr<KvTier>> tiers;
    if (host_pages > 0) tiers.push_back(*HostTier::create(host_pages, kRowBytes));
    start(std::move(tiers));
  }
  void start(std::vector<std::shared_ptr<KvTier>> tiers) {
    tiers.push_back(std::make_unique<Remote>(remote));
    engine.emplace(
        std::move(tiers),
        TierEngine::Pages{.bytes = kRowBytes,
                          .read =
                              [this](std::span<const BlockId>, std::span<std::byte> to) {
                                if (may_read.valid()) may_read.wait();
                                std::ranges::fill(to, std::byte{42});
                                return true;
                              },
                          .write =
                              [this](std::span<const BlockId> ids, std::span<const std::byte> from) {
                                const std::lock_guard lock(mutex);
                                for (std::size_t i = 0; i < ids.size(); ++i)
                                  pages[static_cast<std::size_t>(index(ids[i]))] =
                                      static_cast<int>(from[i * kRowBytes + 5]);
                                return true;
                              }});
    waiter.watch(*engine);
  }
  TierNews wait(std::size_t num_answers) { return waiter.wait(*engine, num_answers); }
  static TierMoves ask(std::uint64_t ticket, std::vector<TierKey> keys, double patience_s = 60) {
    TierMoves moves;
    moves.asks.push_back({.ticket = TierTicket{ticket},
                          .keys = std::move(keys),
                          .owner = {.tenant = 3, .session = 4},
                          .patience_s = patience_s});
    return moves;
  }
  static TierMoves fetch(std::uint64_t ticket, TierRow what, BlockId page) {
    TierMoves moves;
    moves.fetches.push_back(
        {.ticket = TierTicket{ticket}, .row = std::move(what), .pages = {page}, .patience_s = 60});
    return moves;
  }
  static TierMoves store(std::uint64_t ticket, TierRow what) {
    TierMoves moves;
    moves.stores.push_back({.ticket = TierTicket{ticket}, .row = std::move(what), .pages = {BlockId{0}}});
    return moves;
  }
  static TimeNs in(int seconds) { return SteadyClock().now() + seconds * TimeNs{1'000'000'000}; }

  Remote::State remote{.rows = {1, 2}, .may_answer = {}};
  std::shared_future<void> may_read;
  std::mutex mutex;
  testing::NewsWaiter waiter;
  std::array<int, 4> pages{};
  std::optional<TierEngine> engine;
};

TEST_F(RemoteEngine, RowsAreAskedForFetchedAndKeptHere) {
  start(4);
  engine->submit(ask(1, {key(1), key(9), key(2)}));
  const TierNews news = wait(1);
  EXPECT_EQ(news.done[0], (TierDone{.ticket = TierTicket{1}, .ok = true}));
  const CacheOwner owner{.tenant = 3, .session = 4};
  EXPECT_EQ(news.found, (std::vector<TierFound>{{key(1), owner}, {key(2), owner}}));
  engine->submit(fetch(2, named_row(2, 5), BlockId{3}));
  TierNews of_copy = wait(1);
  EXPECT_TRUE(of_copy.done[0].ok);
  EXPECT_EQ(pages[3], 2);
  // A copy is there, behind the answer.
  while (!engine->has({.keys = std::vector{key(2)}})[0]) std::this_thread::yield();
  while (of_copy.found.empty()) engine->take_news(of_copy);
  EXPECT_EQ(of_copy.found, (std::vector<TierFound>{{.key = key(2), .owner = {}, .tiers = 1}}));
  remote.rows.clear();
  engine->submit(fetch(3, named_row(2, 6), BlockId{1}));
  EXPECT_TRUE(wait(1).done[0].ok);
  EXPECT_EQ(pages[1], 2);
}

TEST_F(RemoteEngine, NobodyElseWaitsForTheNetwork) {
  std::promise<void> let_go;
  remote.may_answer = let_go.get_future().share();
  start(4);
  engine->submit(store(1, named_row(7, 1)));
  wait(1);
  engine->submit(ask(2, {key(1)}));
  remote.asked.get_future().wait();
  engine->submit(fetch(3, named_row(7, 2), BlockId{2}));
  EXPECT_EQ(wait(1).done[0], (TierDone{.ticket = TierTicket{3}, .ok = true}));
  std::promise<Status> erased;
  engine->erase({.keys = {key(7)}, .owner = {}}, [&](Status status) { erased.set_value(std::move(status)); });
  EXPECT_TRUE(erased.get_future().get().ok());
  const TierTicket tickets[] = {TierTicket{2}};
  engine->cancel(tickets);
  EXPECT_EQ(wait(1).done[0], (TierDone{.ticket = TierTicket{2}, .ok = false}));
  let_go.set_value();
  engine.reset();
  EXPECT_TRUE(remote.stopped);
}

TEST_F(RemoteEngine, AnAnswerThatIsLateIsNone) {
  std::promise<void> let_go;
  remote.may_answer = let_go.get_future().share();
  start(0);
  engine->submit(ask(1, {key(1)}, 0.01));
  EXPECT_FALSE(wait(1).done[0].ok);
  let_go.set_value();
  engine.reset();
}

// Forgets what it is told to, and tells what it has been given.
class Local final : public KvTier {
 public:
  explicit Local(std::set<std::uint64_t>& stored) : stored_(stored) {}
  std::string_view medium() const override { return "CPU"; }
  bool lookup(const TierKey&) const override { return false; }
  bool fetch(const TierRow&, std::span<std::byte>) override { return false; }
  bool store(const TierRow& row, std::span<const std::byte>, std::vector<TierKey>&) override {
    stored_.insert(row.key.chain[0]);
    return true;
  }
  Status erase(const TierErase&) override { return ok_status(); }
  void erase_all() override {}

 private:
  std::set<std::uint64_t>& stored_;
};

TEST_F(RemoteEngine, ARowThatIsErasedMeanwhileIsNotKept) {
  std::promise<void> let_go;
  remote.may_answer = let_go.get_future().share();
  std::set<std::uint64_t> stored;
  std::vector<std::shared_ptr<KvTier>> tiers;
  tiers.push_back(std::make_shared<Local>(stored));
  start(std::move(tiers));
  engine->submit(fetch(1, named_row(1, 1), BlockId{2}));
  remote.asked.get_future().wait();
  std::promise<Status> erased;
  engine->erase({.keys = {key(1)}, .owner = {}}, [&](Status status) { erased.set_value(std::move(status)); });
  EXPECT_TRUE(erased.get_future().get().ok());
  let_go.set_value();
  EXPECT_TRUE(wait(1).done[0].ok);
  engine.reset();
  EXPECT_TRUE(stored.empty());
}

TEST_F(RemoteEngine, WithoutALocalTierNothingIsStored) {
  start(0);
  engine->submit(store(1, named_row(7, 1)));
  EXPECT_FALSE(wait(1).done[0].ok);
}

TEST_F(RemoteEngine, RowsAreGivenAwayAlsoThoseThatAreJustStored) {
  std::promise<void> let_go;
  may_read = let_go.get_future().share();
  start(4);
  engine->submit(store(1, named_row(7, 1)));
  EXPECT_EQ(engine->has({.keys = std::vector{key(7)}}), std::vector<bool>{false}) << "no time to wait";
  auto asked = std::async(std::launch::async, [&] {
    return engine->has({.keys = std::vector{key(7), key(1)}, .deadline = in(600)});
  });
  let_go.set_value();
  EXPECT_EQ(asked.get(), (std::vector<bool>{true, false})) << "a peer's rows are not given away";
  std::vector<std::byte> bytes(kRowBytes);
  EXPECT_TRUE(engine->read(named_row(7, 0), bytes));
  EXPECT_EQ(bytes.front(), std::byte{42});
  EXPECT_FALSE(engine->read(named_row(1, 0), bytes));
}

TEST(HostTierOrder, ARowIsNotWorthThePlaceOfOnesUsedLater) {
  const auto host = *HostTier::create(2, kRowBytes);
  const std::vector<std::byte> bytes(kRowBytes);
  std::vector<TierKey> gone;
  ASSERT_TRUE(host->store(named_row(1, 10), bytes, gone));
  ASSERT_TRUE(host->store(named_row(2, 20), bytes, gone));
  EXPECT_FALSE(host->store(named_row(3, 5), bytes, gone));
  EXPECT_TRUE(gone.empty());
  EXPECT_TRUE(host->store(named_row(4, 15), bytes, gone));
  EXPECT_EQ(gone, std::vector{key(1)});
}

TEST(HostTierHolds, WhatOthersWereToldIsThere) {
  const auto host = *HostTier::create(4, kRowBytes);
  const std::vector<std::byte> bytes(kRowBytes);
  std::vector<TierKey> gone;
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(host->store(named_row(i, i), bytes, gone));
  const TierKey held[] = {key(1), key(2), key(3)};
  host->hold(held, SteadyClock().now() + TimeNs{600} * 1'000'000'000);
  ASSERT_TRUE(host->store(named_row(5, 5), bytes, gone));
  ASSERT_TRUE(host->store(named_row(6, 6), bytes, gone));
  EXPECT_EQ(gone, (std::vector{key(3), key(4)})) << "half of the pages can be held";
  EXPECT_TRUE(host->lookup(key(1)));
  EXPECT_TRUE(host->lookup(key(2)));
  host->hold(held, 0);
}

}  // namespace
}  // namespace pagoda
