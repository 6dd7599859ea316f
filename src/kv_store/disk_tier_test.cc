// Goal: the disk as a tier finds its own model's rows alone, and threads that store at once all get their
// answer.
#include "kv_store/disk_tier.h"

#include <atomic>
#include <set>
#include <thread>

#include "kv_store/store_test_support.h"

namespace pagoda {
namespace {

using testing::BorrowedFiles;
using testing::StoppedClock;

struct TierFolder {
  MemoryFiles files;
  StoppedClock clock;
  SegmentStoreConfig config{.max_bytes = 1 << 20, .segment_bytes = 64 << 10};

  std::unique_ptr<DiskTier> open(std::uint64_t fingerprint) {
    return std::make_unique<DiskTier>(
        *SegmentStore::open(std::make_unique<BorrowedFiles>(files), config, clock), KvDigest{fingerprint},
        "model");
  }
};

TierRow row(std::uint64_t number) {
  return {.key = {.chain = {number}, .group = 1}, .tokens = {static_cast<TokenId>(number), 5}};
}
std::vector<std::byte> bytes(std::uint64_t number) {
  return std::vector(5000, static_cast<std::byte>(number));
}

TEST(DiskTier, FindsItsOwnFingerprintAlone) {
  TierFolder folder;
  std::vector<TierKey> gone;
  {
    const auto mine = folder.open(1);
    EXPECT_TRUE(mine->store(row(1), bytes(1), gone));
    EXPECT_TRUE(mine->store(row(1), bytes(1), gone)) << "is there";
  }
  std::vector<std::byte> out(5000);
  {
    const auto other = folder.open(2);
    EXPECT_FALSE(other->lookup(row(1).key));
    EXPECT_FALSE(other->fetch(row(1), out));
    other->each_key([](const TierKey&, const CacheOwner&) { ADD_FAILURE(); });
    EXPECT_TRUE(other->store(row(2), bytes(2), gone));
  }
  const auto mine = folder.open(1);
  std::vector<TierKey> keys;
  mine->each_key([&](const TierKey& key, const CacheOwner&) { keys.push_back(key); });
  EXPECT_EQ(keys, std::vector{row(1).key});
  EXPECT_TRUE(mine->lookup(row(1).key));
  ASSERT_TRUE(mine->fetch(row(1), out));
  EXPECT_EQ(out, bytes(1));
  TierRow other_tokens = row(1);
  other_tokens.tokens.front() = 9;
  EXPECT_FALSE(mine->fetch(other_tokens, out));
  mine->erase_all();
  EXPECT_FALSE(mine->lookup(row(1).key));
  EXPECT_TRUE(folder.files.list()->empty()) << "other models' texts, too";
  EXPECT_TRUE(gone.empty());
}

TEST(DiskTier, ErasesRowsByKeyAndWhatTheEngineDoesNotKnowByOwner) {
  TierFolder folder;
  std::vector<TierKey> gone;
  const auto owned = [](std::uint64_t number, std::uint64_t tenant) {
    TierRow out = row(number);
    out.owner = {.tenant = tenant, .session = 0};
    return out;
  };
  {
    const auto other = folder.open(2);
    EXPECT_TRUE(other->store(owned(1, 5), bytes(1), gone));
    EXPECT_TRUE(other->store(owned(2, 6), bytes(2), gone));
  }
  const auto mine = folder.open(1);
  for (const std::uint64_t number : {3, 4}) EXPECT_TRUE(mine->store(owned(number, 5), bytes(number), gone));
  // Row 4 has other users since it was stored: only the engine knows.
  EXPECT_TRUE(mine->erase({.keys = {row(3).key}, .owner = {.tenant = 5, .session = 0}}).ok());
  EXPECT_FALSE(mine->lookup(row(3).key));
  EXPECT_TRUE(mine->lookup(row(4).key));
  std::vector<CacheOwner> owners;
  mine->each_key([&](const TierKey&, const CacheOwner& owner) { owners.push_back(owner); });
  EXPECT_EQ(owners, (std::vector{CacheOwner{.tenant = 5, .session = 0}}));
  const SegmentStoreStats stats = mine->stats();
  EXPECT_EQ(stats.rows, 2) << "and another model's row of another tenant";
}

TEST(DiskTier, EnginesThatShareItHearOfEachOthersRows) {
  TierFolder folder;
  folder.config.max_bytes = 100 << 10;
  folder.config.segment_bytes = 16 << 10;
  const auto tier = folder.open(1);
  struct Engine {
    std::set<std::uint64_t> rows;
    std::vector<CacheOwner> owners;
  };
  Engine engines[2];
  const auto listen = [&](Engine& engine) {
    tier->listen(&engine, [&](const TierKey& key, const CacheOwner& owner, bool there) {
      if (there)
        engine.rows.insert(key.chain[0]), engine.owners.push_back(owner);
      else
        engine.rows.erase(key.chain[0]);
    });
  };
  std::vector<TierKey> gone;
  listen(engines[0]);
  EXPECT_TRUE(tier->store(row(1), bytes(1), gone));
  EXPECT_TRUE(engines[0].rows.empty()) << "it is alone, and knows";
  listen(engines[1]);
  TierRow owned = row(2);
  owned.owner = {.tenant = 5, .session = 6};
  EXPECT_TRUE(tier->store(owned, bytes(2), gone));
  EXPECT_EQ(engines[1].owners, std::vector{owned.owner});
  for (std::uint64_t number = 3; number < 60; ++number)
    EXPECT_TRUE(tier->store(row(number), bytes(number), gone));
  EXPECT_FALSE(gone.empty());
  std::set<std::uint64_t> here;
  tier->each_key([&](const TierKey& key, const CacheOwner&) { here.insert(key.chain[0]); });
  for (const Engine& engine : engines) EXPECT_EQ(engine.rows, here);
  tier->listen(&engines[1], nullptr);
  EXPECT_TRUE(tier->store(row(60), bytes(60), gone));
  EXPECT_FALSE(engines[1].rows.contains(60));
}

TEST(DiskTier, ThreadsAreAnsweredTogether) {
  TierFolder folder;
  folder.config.max_bytes = 300 << 10;
  const auto tier = folder.open(1);
  constexpr std::uint64_t kThreads = 4, kRows = 50;
  std::atomic<std::int64_t> kept = 0, dropped = 0;
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < kRows; ++i) {
        std::vector<TierKey> gone;
        const std::uint64_t number = thread * kRows + i;
        kept += tier->store(row(number), bytes(number), gone);
        dropped += static_cast<std::int64_t>(gone.size());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(kept, kThreads * kRows);
  std::int64_t here = 0;
  for (std::uint64_t number = 0; number < kThreads * kRows; ++number) {
    std::vector<std::byte> out(5000);
    if (!tier->lookup(row(number).key)) continue;
    ++here;
    ASSERT_TRUE(tier->fetch(row(number), out));
    ASSERT_EQ(out, bytes(number));
  }
  EXPECT_EQ(here, kept - dropped);
  EXPECT_GT(here, 10);
}

}  // namespace
}  // namespace pagoda
