// Goal: rows come back as they went, whatever their order; cancelled tickets touch no page; what takes too
// long is lost; a tier that hangs holds up nobody.
#include "model_runner/tier_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "base/check.h"
#include "model_runner/host_tier.h"
#include "model_runner/test_tier_news.h"

namespace pagoda {
namespace {

constexpr std::size_t kPage = 64;

TierRow row(std::uint64_t name, std::uint64_t use) {
  return {.key = {.chain = {name, 0, 0, 0}, .group = 0}, .tokens = {static_cast<TokenId>(name)}, .use = use};
}

// A pool of pages, each full of one byte.
struct Pool {
  explicit Pool(std::size_t num_pages) : bytes(num_pages * kPage) {}
  std::span<std::byte> page(BlockId id) {
    return std::span(bytes).subspan(static_cast<std::size_t>(index(id)) * kPage, kPage);
  }
  void fill(std::int32_t id, int value) { std::memset(page(BlockId{id}).data(), value, kPage); }
  int value(std::int32_t id) { return static_cast<int>(page(BlockId{id})[kPage - 1]); }
  TierEngine::Pages pages() {
    return {.bytes = kPage,
            .read =
                [this](std::span<const BlockId> ids, std::span<std::byte> to) {
                  for (std::size_t i = 0; i < ids.size(); ++i)
                    std::ranges::copy(page(ids[i]), to.subspan(i * kPage).begin());
                  return !broken;
                },
            .write =
                [this](std::span<const BlockId> ids, std::span<const std::byte> from) {
                  for (std::size_t i = 0; i < ids.size(); ++i)
                    std::ranges::copy(from.subspan(i * kPage, kPage), page(ids[i]).begin());
                  return !broken;
                }};
  }
  bool broken = false;
  std::vector<std::byte> bytes;
};

// Blocks in fetch() until it is let go.
class HangingTier final : public KvTier {
 public:
  std::string_view medium() const override { return "DISK"; }
  bool lookup(const TierKey&) const override { return true; }
  bool fetch(const TierRow&, std::span<std::byte> bytes) override {
    entered.set_value();
    let_go.get_future().wait();
    std::memset(bytes.data(), 0xEE, bytes.size());
    return true;
  }
  bool store(const TierRow&, std::span<const std::byte>, std::vector<TierKey>&) override { return false; }
  Status erase(const TierErase&) override { return ok_status(); }
  void erase_all() override {}
  std::promise<void> entered, let_go;
};

// Keeps its rows beyond the engine; a store waits until it may go on.
class LastingTier final : public KvTier {
 public:
  struct Rows {
    std::mutex mutex;
    std::condition_variable changed;
    bool may_store = true;
    int num_storing = 0;
    std::map<std::uint64_t, CacheOwner> kept;
    KvTier::RowListener listener;
  };
  explicit LastingTier(Rows& rows) : rows_(rows) {}
  std::string_view medium() const override { return "DISK"; }
  void each_key(const std::function<void(const TierKey&, const CacheOwner&)>& f) const override {
    const std::lock_guard lock(rows_.mutex);
    for (const auto& [name, owner] : rows_.kept) f({.chain = {name}, .group = 0}, owner);
  }
  bool lookup(const TierKey& key) const override {
    const std::lock_guard lock(rows_.mutex);
    return rows_.kept.contains(key.chain[0]);
  }
  bool fetch(const TierRow& what, std::span<std::byte>) override { return lookup(what.key); }
  bool store(const TierRow& what, std::span<const std::byte>, std::vector<TierKey>&) override {
    std::unique_lock lock(rows_.mutex);
    ++rows_.num_storing;
    rows_.changed.notify_all();
    rows_.changed.wait(lock, [this] { return rows_.may_store; });
    --rows_.num_storing;
    rows_.kept[what.key.chain[0]] = what.owner;
    return true;
  }
  Status erase(const TierErase& what) override {
    const std::lock_guard lock(rows_.mutex);
    CHECK(rows_.num_storing == 0);
    for (const TierKey& key : what.keys) rows_.kept.erase(key.chain[0]);
    return ok_status();
  }
  void erase_all() override {
    const std::lock_guard lock(rows_.mutex);
    rows_.kept.clear();
  }
  bool outlives_process() const override { return true; }
  void listen(const void*, RowListener listener) override {
    const std::lock_guard lock(rows_.mutex);
    rows_.listener = std::move(listener);
  }

 private:
  Rows& rows_;
};

class Engine : public ::testing::Test {
 protected:
  void start(std::unique_ptr<KvTier> tier) {
    std::vector<std::shared_ptr<KvTier>> tiers;
    tiers.push_back(std::move(tier));
    start(std::move(tiers));
  }
  void start(std::vector<std::shared_ptr<KvTier>> tiers) {
    engine.emplace(std::move(tiers), pool.pages());
    waiter.watch(*engine);
  }
  void start(std::int64_t num_pages) { start(*HostTier::create(num_pages, kPage)); }
  TierNews wait(std::size_t num_answers) { return waiter.wait(*engine, num_answers); }
  static TierMoves store(std::uint64_t ticket, TierRow what, std::vector<BlockId> pages) {
    TierMoves moves;
    moves.stores.push_back({.ticket = TierTicket{ticket}, .row = std::move(what), .pages = std::move(pages)});
    return moves;
  }
  static TierMoves fetch(std::uint64_t ticket, TierRow what, std::vector<BlockId> pages,
                         double patience_s = 60) {
    TierMoves moves;
    moves.fetches.push_back({.ticket = TierTicket{ticket},
                             .row = std::move(what),
                             .pages = std::move(pages),
                             .patience_s = patience_s});
    return moves;
  }

  Pool pool{8};
  testing::NewsWaiter waiter;
  LastingTier::Rows rows;
  std::optional<TierEngine> engine;
};

TEST_F(Engine, ARowComesBackIntoOtherPages) {
  start(4);
  pool.fill(0, 10);
  pool.fill(3, 11);
  engine->submit(store(1, row(7, 1), {BlockId{0}, BlockId{3}}));
  EXPECT_TRUE(wait(1).done[0].ok);
  pool.fill(0, 99);
  pool.fill(3, 99);
  engine->submit(fetch(2, row(7, 2), {BlockId{5}, BlockId{1}}));
  const TierNews news = wait(1);
  EXPECT_EQ(news.done[0], (TierDone{.ticket = TierTicket{2}, .ok = true}));
  EXPECT_EQ(pool.value(5), 10);
  EXPECT_EQ(pool.value(1), 11);
  EXPECT_FALSE(engine->has_news());
}

TEST_F(Engine, OtherTokensOrAnotherSizeAreNotThere) {
  start(4);
  engine->submit(store(1, row(7, 1), {BlockId{0}}));
  wait(1);
  TierRow other = row(7, 2);
  other.tokens = {8};
  engine->submit(fetch(2, other, {BlockId{1}}));
  EXPECT_FALSE(wait(1).done[0].ok);
  engine->submit(fetch(3, row(7, 3), {BlockId{1}, BlockId{2}}));
  EXPECT_FALSE(wait(1).done[0].ok);
}

TEST_F(Engine, TheRowUsedLongestAgoGoes) {
  start(2);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    engine->submit(store(i, row(i, i), {BlockId{0}}));
    wait(1);
  }
  TierMoves moves = store(3, row(3, 4), {BlockId{0}});
  moves.touches.push_back(row(1, 3));
  engine->submit(moves);
  TierMoves later = store(4, row(4, 5), {BlockId{0}});
  wait(1);
  engine->submit(later);
  TierNews news = wait(1);
  const auto has = [&](std::uint64_t name) {
    engine->submit(fetch(100 + name, row(name, 10 + name), {BlockId{1}}));
    return wait(1).done[0].ok;
  };
  EXPECT_TRUE(has(4));
  EXPECT_FALSE(has(2)) << "the first to go";
}

TEST_F(Engine, ATierThatHangsHoldsNoPageAndNobody) {
  auto tier = std::make_unique<HangingTier>();
  HangingTier& hanging = *tier;
  start(std::move(tier));
  pool.fill(2, 5);
  engine->submit(fetch(1, row(1, 1), {BlockId{2}}));
  hanging.entered.get_future().wait();
  const TierTicket ticket{1};
  engine->cancel(std::span(&ticket, 1));  // returns at once
  const TierNews news = wait(1);
  EXPECT_FALSE(news.done[0].ok);
  hanging.let_go.set_value();
  engine.reset();
  EXPECT_EQ(pool.value(2), 5) << "it came too late";
}

TEST_F(Engine, AFetchThatOutlastsItsPatienceIsLost) {
  auto tier = std::make_unique<HangingTier>();
  HangingTier& hanging = *tier;
  start(std::move(tier));
  pool.fill(2, 5);
  engine->submit(fetch(1, row(1, 1), {BlockId{2}}, 0.001));
  EXPECT_FALSE(wait(1).done[0].ok);
  hanging.let_go.set_value();
  engine.reset();
  EXPECT_EQ(pool.value(2), 5);
}

TEST_F(Engine, AnAskWithoutKeysIsATimer) {
  start(4);
  TierMoves moves;
  moves.asks.push_back({.ticket = TierTicket{1}, .keys = {}, .patience_s = 0.001});
  moves.asks.push_back({.ticket = TierTicket{2}, .keys = {}, .patience_s = 600});
  engine->submit(moves);
  EXPECT_EQ(wait(1).done[0].ticket, TierTicket{1});
  const TierTicket second{2};
  engine->cancel(std::span(&second, 1));
  EXPECT_EQ(wait(1).done[0].ticket, second);
}

TEST_F(Engine, ErasedNothingIsThereAndNothingIsTold) {
  start(4);
  engine->submit(store(1, row(7, 1), {BlockId{0}}));
  wait(1);
  engine->submit(store(2, row(8, 2), {BlockId{0}}));
  engine->erase_all();
  EXPECT_FALSE(engine->has_news());
  engine->submit(fetch(3, row(7, 3), {BlockId{1}}));
  EXPECT_FALSE(wait(1).done[0].ok);
}

// Rows go out, are cancelled and come back while others overwrite what is cancelled: no row ever has
// another's bytes.
TEST_F(Engine, UnderLoadEveryRowHasItsOwnBytes) {
  start(24);
  std::mt19937_64 rng(3);
  std::uint64_t ticket = 0, use = 0;
  std::map<std::uint64_t, bool> known;
  for (int round = 0; round < 300; ++round) {
    TierMoves moves;
    std::map<std::uint64_t, std::uint64_t> names;  // by ticket
    for (std::int32_t page = 0; page < 8; ++page) {
      const std::uint64_t name = 1 + rng() % 40;
      if (page < 4) {
        pool.fill(page, static_cast<int>(name));
        moves.stores.push_back(store(++ticket, row(name, ++use), {BlockId{page}}).stores.front());
      } else {
        pool.fill(page, 0);
        moves.fetches.push_back(fetch(++ticket, row(name, ++use), {BlockId{page}}).fetches.front());
      }
      names[ticket] = name;
    }
    engine->submit(moves);
    std::vector<TierTicket> cancelled;
    for (const TierStore& out : moves.stores)
      if (rng() % 2 == 0) cancelled.push_back(out.ticket);
    engine->cancel(cancelled);
    for (const TierStore& out : moves.stores)
      if (std::ranges::find(cancelled, out.ticket) != cancelled.end()) pool.fill(index(out.pages[0]), 255);
    const TierNews news = wait(8);
    ASSERT_EQ(news.done.size(), 8u);
    for (const TierDone& done : news.done) {
      for (const TierFetch& in : moves.fetches)
        if (in.ticket == done.ticket && done.ok)
          EXPECT_EQ(pool.value(index(in.pages[0])),
                    static_cast<int>(names.at(static_cast<std::uint64_t>(done.ticket))));
    }
  }
}

TEST_F(Engine, WhatIsErasedIsGoneAlsoIfItWasBeingStored) {
  start(std::make_unique<LastingTier>(rows));
  rows.may_store = false;
  for (std::uint64_t name = 1; name <= 5; ++name)
    engine->submit(store(name, row(name, name), {BlockId{static_cast<std::int32_t>(name)}}));
  {
    std::unique_lock lock(rows.mutex);
    rows.changed.wait(lock, [&] { return rows.num_storing == 2; });  // the others are queued
  }
  TierErase what{.keys = {}, .owner = {}};
  for (const std::uint64_t name : {1, 2, 3}) what.keys.insert(row(name, 0).key);
  std::promise<Status> erased;
  engine->erase(std::move(what), [&](Status status) { erased.set_value(std::move(status)); });
  {
    const std::lock_guard lock(rows.mutex);
    rows.may_store = true;
    rows.changed.notify_all();
  }
  EXPECT_TRUE(erased.get_future().get().ok());
  for (const TierDone& done : wait(5).done) EXPECT_EQ(done.ok, done.ticket != TierTicket{3}) << "queued";
  const std::lock_guard lock(rows.mutex);
  EXPECT_EQ(rows.kept.size(), 2u);
  EXPECT_TRUE(rows.kept.contains(4) && rows.kept.contains(5));
}

TEST_F(Engine, WhatCannotBeCopiedIsNeitherKeptNorThere) {
  start(4);
  engine->submit(store(1, row(7, 1), {BlockId{0}}));
  EXPECT_TRUE(wait(1).done.front().ok);
  pool.broken = true;
  engine->submit(fetch(2, row(7, 2), {BlockId{1}}));
  engine->submit(store(3, row(8, 3), {BlockId{2}}));
  for (const TierDone& done : wait(2).done) EXPECT_FALSE(done.ok || done.tiers != 0);
  pool.broken = false;
  engine->submit(fetch(4, row(8, 4), {BlockId{1}}));
  EXPECT_FALSE(wait(1).done.front().ok);
}

TEST_F(Engine, NewsNameTheTiers) {
  rows.kept[9] = {};
  std::vector<std::shared_ptr<KvTier>> tiers;
  tiers.push_back(*HostTier::create(1, kPage));
  tiers.push_back(std::make_shared<LastingTier>(rows));
  start(std::move(tiers));
  engine->submit(store(1, row(7, 1), {BlockId{0}}));
  TierNews news = wait(1);
  EXPECT_EQ(news.found, (std::vector{TierFound{.key = row(9, 0).key, .owner = {}, .tiers = 0b10}}));
  EXPECT_EQ(news.done, (std::vector{TierDone{.ticket = TierTicket{1}, .ok = true, .tiers = 0b11}}));
  // A row from the slower tier goes to the faster one, too, which has room for one alone.
  engine->submit(fetch(2, row(9, 2), {BlockId{1}}));
  news = wait(1);
  EXPECT_EQ(news.done, (std::vector{TierDone{.ticket = TierTicket{2}, .ok = true, .tiers = 0b01}}));
  EXPECT_EQ(news.gone, (std::vector{TierGone{.key = row(7, 0).key, .tiers = 0b01}}));
}

TEST_F(Engine, RowsThatAnotherEngineStoresOrLosesAreHeardOf) {
  start(std::make_unique<LastingTier>(rows));
  constexpr CacheOwner kOwner{.tenant = 3, .session = 4};
  rows.listener(row(5, 0).key, kOwner, true);
  rows.listener(row(6, 0).key, {}, false);
  EXPECT_TRUE(waiter.is_woken());
  TierNews news;
  engine->take_news(news);
  EXPECT_EQ(news.found, (std::vector{TierFound{.key = row(5, 0).key, .owner = kOwner, .tiers = 1}}));
  EXPECT_EQ(news.gone, (std::vector{TierGone{.key = row(6, 0).key, .tiers = 1}}));
  engine.reset();
  EXPECT_FALSE(rows.listener);
}

// A caller that would be woken for each row has little time for anything else.
TEST_F(Engine, ALongPromptsRowsAreToldTogether) {
  pool = Pool(65);  // threads that fetch have pages of their own
  start(64);
  TierMoves stores, fetches;
  for (std::uint64_t name = 1; name <= 64; ++name) {
    stores.stores.push_back(store(name, row(name, name), {BlockId{0}}).stores.front());
    const BlockId own{static_cast<std::int32_t>(name)};
    fetches.fetches.push_back(fetch(100 + name, row(name, 100 + name), {own}).fetches.front());
  }
  engine->submit(stores);
  wait(64);
  waiter.take_wakes();
  engine->submit(fetches);
  for (const TierDone& done : wait(64).done) EXPECT_TRUE(done.ok);
  EXPECT_LE(waiter.take_wakes(), 2);
}

TEST_F(Engine, WhatIsQueuedAtTheEndIsStillWrittenWhereItLasts) {
  start(std::make_unique<LastingTier>(rows));
  TierMoves moves;
  for (std::uint64_t name = 1; name <= 100; ++name)
    moves.stores.push_back(store(name, row(name, name), {BlockId{0}}).stores.front());
  engine->submit(moves);
  engine.reset();
  EXPECT_EQ(rows.kept.size(), 100u);
}

TEST_F(Engine, RowsThatOutliveTheProcessAreFoundAgainWhereOnlyTheOthersAreErased) {
  std::vector<std::shared_ptr<KvTier>> tiers;
  tiers.push_back(*HostTier::create(4, kPage));
  tiers.push_back(std::make_unique<LastingTier>(rows));
  engine.emplace(std::move(tiers), pool.pages());
  TierRow one = row(7, 1);
  one.owner = {.tenant = 1, .session = 2};
  engine->submit(store(1, one, {BlockId{0}}));
  while (!engine->has_news()) std::this_thread::yield();
  TierNews news;
  engine->take_news(news);
  engine->erase_all(TierEngine::Erase::what_ends_with_the_process);
  engine->take_news(news);
  EXPECT_EQ(news.found, (std::vector{TierFound{.key = one.key, .owner = one.owner, .tiers = 2}}));
  engine->erase_all();
  engine->take_news(news);
  EXPECT_TRUE(news.found.empty() && rows.kept.empty());
}

}  // namespace
}  // namespace pagoda
