// Goal: under any order of storing, fetching, erasing and restarting, the store agrees with a map; it may
// lose rows only to its limit, and then the oldest.
#include <gtest/gtest.h>

#include <map>

#include "kv_store/store_test_support.h"

namespace pagoda {
namespace {

using testing::BorrowedFiles;
using testing::fetch;
using testing::StoppedClock;
using testing::store;
using testing::TestRow;

enum class Room { plenty, little };

void compare_with_map(std::uint64_t seed, Room room) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  MemoryFiles files;
  const StoppedClock clock;
  const SegmentStoreConfig config{.max_bytes = room == Room::plenty ? 64 << 20 : 300 << 10,
                                  .segment_bytes = 40 << 10};
  const auto open = [&] {
    return *SegmentStore::open(std::make_unique<BorrowedFiles>(files), config, clock);
  };
  auto kept = open();
  std::map<std::uint64_t, TestRow> model;
  std::vector<std::uint64_t> newest;
  for (int step = 0; step < 150; ++step) {
    const std::uint64_t scope = random() % 4;
    const auto row_of = [&](std::uint64_t number) {
      return TestRow(number, number % 4, 50 + number * 37 % 6000);
    };
    switch (random() % 8) {
      case 0: {
        const auto erased = kept->erase(testing::rows_of(scope));
        ASSERT_TRUE(erased);
        const auto count = std::erase_if(model, [&](const auto& entry) { return entry.first % 4 == scope; });
        if (room == Room::plenty) ASSERT_EQ(*erased, static_cast<std::int64_t>(count));
        std::erase_if(newest, [&](std::uint64_t number) { return number % 4 == scope; });
        break;
      }
      case 1:
        kept.reset();
        kept = open();
        break;
      case 2:
      case 3: {
        const TestRow row = row_of(random() % 200);
        const KvFetched fetched = fetch(*kept, row);
        const bool known = model.contains(row.key.hash[0]);
        if (!known) ASSERT_EQ(fetched, KvFetched::miss);
        if (known && room == Room::plenty) ASSERT_EQ(fetched, KvFetched::hit);
        break;
      }
      default: {
        std::vector<TestRow> some;
        for (std::uint64_t i = 0; i < 1 + random() % 5; ++i) some.push_back(row_of(random() % 200));
        const auto stored = store(*kept, some);
        for (std::size_t i = 0; i < some.size(); ++i) {
          const std::uint64_t number = some[i].key.hash[0];
          const bool known = model.contains(number);
          if (!known) ASSERT_NE(stored[i], KvStored::failed);
          if (room == Room::plenty) ASSERT_EQ(stored[i], known ? KvStored::present : KvStored::stored);
          model.try_emplace(number, some[i]);
          if (stored[i] == KvStored::stored) newest.push_back(number);
        }
        break;
      }
    }
    kept->check_invariants();
    ASSERT_LE(files.total_bytes(), config.max_bytes);
    // A third of the room is always the newest rows'.
    std::int64_t bytes = 0;
    for (std::size_t i = newest.size(); i-- > 0 && bytes < 60 << 10;) {
      const TestRow row = row_of(newest[i]);
      bytes += static_cast<std::int64_t>(2 * segment_padded(row.bytes.size()));
      ASSERT_TRUE(kept->contains(row.key)) << newest[i];
    }
  }
}

TEST(SegmentStoreModel, AgreesWithAMap) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) compare_with_map(seed, Room::plenty);
}

TEST(SegmentStoreModel, LosesOnlyTheOldestToItsLimit) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) compare_with_map(seed, Room::little);
}

}  // namespace
}  // namespace pagoda
