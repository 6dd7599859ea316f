// Goal: rows that were stored are found with their bytes, also by the next process; limits hold; what was
// erased is gone from the files; and whatever the disk does is a miss, never a wrong byte.
#include "kv_store/segment_store.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <set>
#include <thread>

#include "kv_store/store_test_support.h"

namespace pagoda {
namespace {

using testing::any_row;
using testing::BorrowedFiles;
using testing::fetch;
using testing::rows_of;
using testing::StoppedClock;
using testing::store;
using testing::TestRow;

constexpr std::int64_t kKiB = 1024;

struct StoreFolder {
  MemoryFiles files;
  StoppedClock clock;
  SegmentStoreConfig config{.max_bytes = 1024 * kKiB, .segment_bytes = 64 * kKiB};

  std::unique_ptr<SegmentStore> open() {
    auto opened = SegmentStore::open(std::make_unique<BorrowedFiles>(files), config, clock);
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }
};

std::vector<TestRow> rows(std::uint64_t first, std::uint64_t count, std::uint64_t scope = 0) {
  std::vector<TestRow> out;
  for (std::uint64_t i = 0; i < count; ++i) out.emplace_back(first + i, scope);
  return out;
}

bool occurs(const MemoryFiles& files, const std::vector<std::byte>& bytes) {
  auto& all = const_cast<MemoryFiles&>(files);
  const auto names = files.list();
  return std::ranges::any_of(*names, [&](const StoredFileInfo& file) {
    return !std::ranges::search(all.bytes_of(file.name), std::span(bytes).first(64)).empty();
  });
}

TEST(SegmentStore, FindsWhatWasStoredAlsoAfterARestart) {
  StoreFolder folder;
  const auto some = rows(1, 5);
  {
    const auto first = folder.open();
    EXPECT_EQ(fetch(*first, some[0]), KvFetched::miss);
    EXPECT_EQ(store(*first, some), std::vector(5, KvStored::stored));
    EXPECT_EQ(store(*first, some), std::vector(5, KvStored::present));
    for (const TestRow& row : some) EXPECT_EQ(fetch(*first, row), KvFetched::hit);
  }
  const auto second = folder.open();
  for (const TestRow& row : some) EXPECT_EQ(fetch(*second, row), KvFetched::hit);
  EXPECT_EQ(second->stats().rows, 5);
  EXPECT_EQ(store(*second, rows(6, 1)), std::vector(1, KvStored::stored));
  second->check_invariants();
}

// Files of which the two that are opened first to be read are opened at the same time.
class MeetingFiles final : public FileLayer {
 public:
  struct State {
    std::latch opened{2};
    std::atomic<int> num_calls = 0, num_open = 0;
  };
  MeetingFiles(MemoryFiles& files, State& state) : files_(files), state_(state) {}
  Result<std::vector<StoredFileInfo>> list() const override { return files_.list(); }
  Result<std::unique_ptr<StoredFile>> open(const std::string& name, Access access) const override {
    auto file = files_.open(name, access);
    if (!file || access != Access::read) return file;
    std::unique_ptr<StoredFile> counted = std::make_unique<Counted>(*std::move(file), state_.num_open);
    if (state_.num_calls++ < 2) state_.opened.arrive_and_wait();
    return counted;
  }
  Result<std::unique_ptr<StoredFile>> create(const std::string& name) override { return files_.create(name); }
  Status remove(const std::string& name) override { return files_.remove(name); }
  Status sync_folder() override { return files_.sync_folder(); }

 private:
  class Counted final : public StoredFile {
   public:
    Counted(std::unique_ptr<StoredFile> file, std::atomic<int>& count)
        : file_(std::move(file)), count_(count) {
      ++count_;
    }
    ~Counted() override { --count_; }
    Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const override {
      return file_->read(offset, out);
    }
    Status write(std::uint64_t, std::span<const std::byte>) override { return internal_error("read only"); }
    Status zero(std::uint64_t, std::uint64_t) override { return internal_error("read only"); }
    Status truncate(std::uint64_t) override { return internal_error("read only"); }
    Status sync() override { return internal_error("read only"); }

   private:
    const std::unique_ptr<StoredFile> file_;
    std::atomic<int>& count_;
  };
  MemoryFiles& files_;
  State& state_;
};

// A file that stays open keeps its room on the disk.
TEST(SegmentStore, ASegmentThatTwoThreadsOpenedIsClosedWhenItIsRemoved) {
  StoreFolder folder;
  MeetingFiles::State state;
  auto opened =
      SegmentStore::open(std::make_unique<MeetingFiles>(folder.files, state), folder.config, folder.clock);
  ASSERT_TRUE(opened);
  SegmentStore& kept = **opened;
  const auto some = rows(1, 2);
  store(kept, some);
  std::thread other([&] { EXPECT_EQ(fetch(kept, some[0]), KvFetched::hit); });
  EXPECT_EQ(fetch(kept, some[1]), KvFetched::hit);
  other.join();
  EXPECT_EQ(state.num_open, 1);
  EXPECT_EQ(*kept.erase(any_row), 2);
  EXPECT_EQ(state.num_open, 0);
}

TEST(SegmentStore, ComparesTokensSizeAndEveryPartOfTheKey) {
  StoreFolder folder;
  const auto kept = folder.open();
  const TestRow row(1, 2);
  store(*kept, {row});
  const auto misses = [&](TestRow other) { return fetch(*kept, other) == KvFetched::miss; };
  TestRow other = row;
  other.tokens.back() += 1;
  EXPECT_TRUE(misses(other)) << "a collision of hashes";
  other = row, other.tokens.pop_back();
  EXPECT_TRUE(misses(other));
  other = row, other.key.fingerprint[3] = 1;
  EXPECT_TRUE(misses(other));
  other = row, other.key.group = 1;
  EXPECT_TRUE(misses(other));
  other = row, other.bytes.pop_back();
  EXPECT_TRUE(misses(other));
  EXPECT_EQ(fetch(*kept, row), KvFetched::hit);
}

TEST(SegmentStore, KeepsItsLimitAndWhatIsUsed) {
  StoreFolder folder;
  folder.config.max_bytes = 256 * kKiB;
  const auto kept = folder.open();
  const TestRow used(1);
  store(*kept, {used});
  for (std::uint64_t i = 2; i < 400; ++i) {
    store(*kept, {TestRow(i)});
    EXPECT_EQ(fetch(*kept, TestRow(i)), KvFetched::hit) << "the newest";
    EXPECT_EQ(fetch(*kept, used), KvFetched::hit) << i;
    ASSERT_LE(folder.files.total_bytes(), folder.config.max_bytes);
    kept->check_invariants();
  }
  EXPECT_EQ(fetch(*kept, TestRow(2)), KvFetched::miss) << "never used again";
  EXPECT_GT(kept->stats().evicted_rows, 300);
  // A lower limit holds from the start.
  folder.config.max_bytes = 128 * kKiB;
  (void)folder.open();
  EXPECT_LE(folder.files.total_bytes(), folder.config.max_bytes);
}

// Sessions that return again and again are not driven out by others that never do, though whole files of
// theirs are older.
TEST(SegmentStore, WhatReturnsStays) {
  StoreFolder folder;
  folder.config.max_bytes = 512 * kKiB;
  folder.config.segment_bytes = 64 * kKiB;
  const auto kept = folder.open();
  const std::vector<TestRow> session = rows(1, 30);
  for (const TestRow& row : session) store(*kept, {row});
  for (std::uint64_t round = 0; round < 30; ++round) {
    for (const TestRow& row : rows(100 + 10 * round, 10)) store(*kept, {row});
    for (const TestRow& row : session) ASSERT_EQ(fetch(*kept, row), KvFetched::hit) << "round " << round;
  }
  EXPECT_LT(kept->stats().bytes_written, 3 * 330 * 8 * kKiB) << "little is moved";
}

// Rows may come later than others that were used after them: when they were used counts, and to be moved is
// no use.
TEST(SegmentStore, RowsGoByWhenTheyWereUsedNotWhenTheyCame) {
  StoreFolder folder;
  folder.config.max_bytes = 256 * kKiB;
  folder.config.segment_bytes = 16 * kKiB;
  const auto kept = folder.open();
  const auto put = [&](std::uint64_t number, std::uint64_t use) {
    const TestRow row(number);
    KvRow view = row.row();
    view.use = use;
    return kept->store(std::span(&view, 1), "model").front();
  };
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(put(100 + i, 1000 + i), KvStored::stored);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(put(200 + i, 500 + i), KvStored::stored);
  for (std::uint64_t i = 0; i < 10; ++i) put(300 + i, 2000 + i);
  EXPECT_GT(kept->stats().evicted_rows, 0);
  for (std::uint64_t i = 4; i < 20; ++i) EXPECT_EQ(fetch(*kept, TestRow(100 + i)), KvFetched::hit) << i;
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(fetch(*kept, TestRow(300 + i)), KvFetched::hit) << i;
  EXPECT_EQ(fetch(*kept, TestRow(200)), KvFetched::miss);
  while (put(400 + static_cast<std::uint64_t>(kept->stats().rows), 3000) == KvStored::stored &&
         kept->stats().evicted_rows < 30) {
  }
  EXPECT_EQ(put(500, 1), KvStored::refused) << "older than all that is there";
  EXPECT_EQ(put(501, 4000), KvStored::stored);
  kept->touch(TestRow(501).key, 3);
  kept->check_invariants();
}

TEST(SegmentStore, TellsWhatWentForOthers) {
  StoreFolder folder;
  folder.config.max_bytes = 128 * kKiB;
  const auto kept = folder.open();
  std::set<std::uint64_t> here;
  for (std::uint64_t i = 1; i < 200; ++i) {
    const TestRow row(i);
    std::vector<KvKey> gone;
    const KvRow view = row.row();
    ASSERT_EQ(kept->store(std::span(&view, 1), "model", &gone), std::vector(1, KvStored::stored));
    here.insert(i);
    for (const KvKey& key : gone) EXPECT_EQ(here.erase(key.hash[0]), 1);
    if (i % 3 == 0) kept->touch(TestRow(*here.begin()).key);
    std::set<std::uint64_t> found;
    kept->each_key([&](const KvKey& key, const CacheOwner&) { found.insert(key.hash[0]); });
    ASSERT_EQ(found, here);
  }
}

TEST(SegmentStore, RefusesWhatCanNeverFit) {
  StoreFolder folder;
  folder.config.max_bytes = 16 * kKiB;
  const auto kept = folder.open();
  EXPECT_EQ(store(*kept, {TestRow(1, 0, 20 * kKiB)}), std::vector(1, KvStored::refused));
  EXPECT_EQ(store(*kept, {TestRow(2)}), std::vector(1, KvStored::stored));
}

TEST(SegmentStore, WritesSoMuchInAnHour) {
  StoreFolder folder;
  folder.config.max_write_bytes_per_hour = 40 * kKiB;
  const auto kept = folder.open();
  const auto count = [&](std::uint64_t first) {
    return std::ranges::count(store(*kept, rows(first, 20)), KvStored::stored);
  };
  EXPECT_EQ(count(100), 10);  // 4 KiB each
  EXPECT_EQ(count(200), 0);
  folder.clock.time += TimeNs{1800} * 1'000'000'000;
  EXPECT_EQ(count(300), 5);
  EXPECT_EQ(kept->stats().refused, 10 + 20 + 15);
}

TEST(SegmentStore, ErasesOneOwnersRowsForGood) {
  StoreFolder folder;
  const TestRow secret(1, 1), other(2, 2), alone(3, 1);
  {
    const auto kept = folder.open();
    store(*kept, {secret, other});
    store(*kept, {alone});
    EXPECT_EQ(*kept->erase(rows_of(1)), 2);
    EXPECT_EQ(fetch(*kept, secret), KvFetched::miss);
    EXPECT_EQ(fetch(*kept, other), KvFetched::hit);
    kept->check_invariants();
  }
  EXPECT_FALSE(occurs(folder.files, secret.bytes) || occurs(folder.files, alone.bytes));
  const auto kept = folder.open();
  EXPECT_EQ(fetch(*kept, secret), KvFetched::miss);
  EXPECT_EQ(fetch(*kept, alone), KvFetched::miss);
  EXPECT_EQ(fetch(*kept, other), KvFetched::hit);
  EXPECT_EQ(*kept->erase(any_row), 1);
  EXPECT_TRUE(folder.files.list()->empty());
  EXPECT_EQ(store(*kept, {secret}), std::vector(1, KvStored::stored)) << "goes on";
}

// A copy that no lookup finds any more is on the disk all the same.
TEST(SegmentStore, ErasesCopiesThatNobodyFinds) {
  StoreFolder folder;
  const TestRow secret(1, 1), other(2, 2);
  const auto kept = folder.open();
  store(*kept, {secret, other});
  auto& bytes = folder.files.bytes_of("0000000000000001.kv");
  const auto at = std::ranges::search(bytes, secret.bytes).begin();
  at[599] ^= std::byte{1};
  EXPECT_EQ(fetch(*kept, secret), KvFetched::lost);
  EXPECT_EQ(store(*kept, {secret}), std::vector(1, KvStored::stored));
  EXPECT_EQ(*kept->erase(rows_of(1)), 1);
  EXPECT_FALSE(occurs(folder.files, secret.bytes));
  EXPECT_EQ(fetch(*kept, other), KvFetched::hit);
}

// The remains of a batch that was never whole hold tokens, too.
TEST(SegmentStore, RemovesWhatIsTornWhenItOpens) {
  StoreFolder folder;
  const TestRow torn(1), whole(2), cut(3);
  const std::string name = "0000000000000001.kv";
  {
    const auto kept = folder.open();
    for (const TestRow& row : {torn, whole, cut}) store(*kept, {row});
  }
  auto& bytes = folder.files.bytes_of(name);
  bytes[8] ^= std::byte{1};           // the first header
  bytes.resize(bytes.size() - 4000);  // the last row
  ASSERT_TRUE(occurs(folder.files, torn.bytes) && occurs(folder.files, cut.bytes));
  const auto kept = folder.open();
  EXPECT_FALSE(occurs(folder.files, torn.bytes) || occurs(folder.files, cut.bytes));
  EXPECT_EQ(fetch(*kept, whole), KvFetched::hit);
  EXPECT_EQ(kept->stats().rows, 1);
}

// Every byte of a file changed by itself: the row is there with its bytes, or is not.
TEST(SegmentStore, AChangedByteIsLostAndNoMore) {
  StoreFolder folder;
  const auto some = rows(1, 2);
  store(*folder.open(), some);
  const std::string name = "0000000000000001.kv";
  const std::vector<std::byte> whole = folder.files.bytes_of(name);
  std::int64_t lost = 0;
  for (std::size_t at = 0; at < whole.size(); at = at < 600 || at % 4096 > 650 ? at + 1 : at + 7) {
    if (at % 4096 > 650 && at % 97 != 0) continue;  // padding
    auto changed = whole;
    changed[at] ^= std::byte{0x40};
    folder.files.put(name, std::move(changed));
    const auto kept = folder.open();
    for (const TestRow& row : some) lost += fetch(*kept, row) != KvFetched::hit;
  }
  EXPECT_GT(lost, 1000);
}

TEST(SegmentStore, AnotherPlaceOrNameIsForeign) {
  StoreFolder folder;
  const TestRow row(1);
  store(*folder.open(), {row});
  const std::vector<std::byte> whole = folder.files.bytes_of("0000000000000001.kv");
  folder.files.put("0000000000000009.kv", whole);
  folder.files.put("notes.txt", whole);
  EXPECT_TRUE(folder.files.remove("0000000000000001.kv").ok());
  const auto kept = folder.open();
  EXPECT_EQ(fetch(*kept, row), KvFetched::miss);
  ASSERT_EQ(folder.files.list()->size(), 1);
  EXPECT_EQ(folder.files.list()->front().name, "notes.txt") << "is not ours to remove";
}

TEST(SegmentStore, AFullDiskIsLeftAloneForAWhile) {
  StoreFolder folder;
  const auto kept = folder.open();
  store(*kept, rows(1, 2));
  folder.files.max_bytes = folder.files.total_bytes() + 6 * kKiB;
  EXPECT_EQ(store(*kept, rows(10, 2)), std::vector(2, KvStored::failed));
  EXPECT_EQ(fetch(*kept, TestRow(1)), KvFetched::hit);
  folder.files.max_bytes = 1 << 30;
  EXPECT_EQ(store(*kept, rows(10, 2)), std::vector(2, KvStored::refused)) << "too soon";
  EXPECT_EQ(kept->stats().refused, 2);
  folder.clock.time += TimeNs{60} * 1'000'000'000;
  EXPECT_EQ(store(*kept, rows(10, 2)), std::vector(2, KvStored::stored));
  EXPECT_EQ(folder.open()->stats().rows, 4);
}

// The n-th operation fails, for every n: no wrong byte, and what is said to be erased is.
TEST(SegmentStore, AnyOperationMayFail) {
  for (int n = 0; n < 60; ++n) {
    SCOPED_TRACE(n);
    StoreFolder folder;
    int left = n;
    folder.files.fails = [&](bool) { return left-- == 0; };
    auto opened =
        SegmentStore::open(std::make_unique<BorrowedFiles>(folder.files), folder.config, folder.clock);
    if (!opened) continue;
    auto kept = *std::move(opened);
    const auto mine = rows(1, 3, 1), others = rows(11, 3, 2);
    store(*kept, mine);
    folder.clock.time += TimeNs{60} * 1'000'000'000;
    store(*kept, others);
    for (const TestRow& row : mine) fetch(*kept, row);
    const bool erased = kept->erase(rows_of(1)).has_value();
    kept->check_invariants();
    kept = folder.open();
    for (const TestRow& row : mine) {
      const KvFetched fetched = fetch(*kept, row);
      if (erased) EXPECT_EQ(fetched, KvFetched::miss);
    }
    for (const TestRow& row : others) fetch(*kept, row);
    kept->check_invariants();
  }
}

TEST(SegmentStore, ShortReadsAreLost) {
  StoreFolder folder;
  const auto kept = folder.open();
  store(*kept, rows(1, 1));
  folder.files.short_reads = true;
  EXPECT_EQ(fetch(*kept, TestRow(1)), KvFetched::lost);
  EXPECT_EQ(fetch(*kept, TestRow(1)), KvFetched::miss);
}

}  // namespace
}  // namespace pagoda
