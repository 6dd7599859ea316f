// Goal: whenever the power fails, the next process finds rows with their bytes or no rows; what was stored is
// there; what was erased is not. Method: a workload on a folder in memory; before every change to it, images
// of what a disk may then hold, each opened and asked for every row.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kv_store/store_test_support.h"

namespace pagoda {
namespace {

using testing::BorrowedFiles;
using testing::fetch;
using testing::StoppedClock;
using testing::store;
using testing::TestRow;

std::int64_t images = 0, hits = 0, second_crashes = 0;

class Workload {
 public:
  explicit Workload(std::uint64_t seed, bool erases)
      : random_(seed),
        erases_(erases),
        config_{.max_bytes = erases ? 160 << 10 : 16 << 20, .segment_bytes = 48 << 10} {
    files_.on_change = [this] { crash(); };
  }

  void run(int steps) {
    auto kept = open(files_);
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      const auto choice = random_() % 10;
      if (erases_ && choice < 2) {
        const std::uint64_t scope = random_() % kScopes;
        if (kept->erase(testing::rows_of(scope)))
          for (TestRow& row : rows_)
            if (row.owner.session == scope) erased_.insert(row.key.hash[0]), durable_.erase(row.key.hash[0]);
      } else if (choice == 9) {
        kept.reset();
        kept = open(files_);
      } else {
        std::vector<TestRow> some;
        for (std::uint64_t i = 0; i < 1 + random_() % 4; ++i) some.push_back(new_row());
        rows_.insert(rows_.end(), some.begin(), some.end());
        const auto stored = store(*kept, some);
        for (std::size_t i = 0; i < some.size(); ++i)
          if (stored[i] == KvStored::stored) durable_.insert(some[i].key.hash[0]);
      }
      if (!rows_.empty()) fetch(*kept, rows_[random_() % rows_.size()]);
      kept->check_invariants();
      crash();
    }
  }

 private:
  static constexpr std::uint64_t kScopes = 3, kNext = 1'000'000;

  TestRow new_row() { return TestRow(++last_, random_() % kScopes, 100 + random_() % 5000); }

  std::unique_ptr<SegmentStore> open(MemoryFiles& files) {
    auto opened = SegmentStore::open(std::make_unique<BorrowedFiles>(files), config_, clock_);
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }

  void check(MemoryFiles& image) {
    ++images;
    const auto kept = open(image);
    kept->check_invariants();
    for (const TestRow& row : rows_) {
      const std::uint64_t number = row.key.hash[0];
      const bool hit = fetch(*kept, row) == KvFetched::hit;
      hits += hit;
      if (erased_.contains(number)) EXPECT_FALSE(hit) << "row " << number << " came back";
      if (!erases_ && durable_.contains(number))
        EXPECT_TRUE(hit) << "row " << number << " was stored and is gone";
    }
    // Its header may have arrived alone, which shows when it is fetched.
    if (fetch(*kept, TestRow(kNext)) != KvFetched::hit)
      EXPECT_EQ(store(*kept, {TestRow(kNext)}), std::vector(1, KvStored::stored));
    EXPECT_EQ(fetch(*kept, TestRow(kNext)), KvFetched::hit) << "the folder does not work any more";
  }

  void crash() {
    for (int i = 0; i < 3; ++i) {
      const auto image = files_.crash_image(random_);
      // A second crash, while the next process clears up after the first.
      std::unique_ptr<MemoryFiles> later;
      if (random_() % 8 == 0)
        image->on_change = [&, from = image.get()] {
          if (random_() % 2 == 0) later = from->crash_image(random_);
        };
      check(*image);
      if (later != nullptr) check(*later), ++second_crashes;
    }
  }

  std::mt19937_64 random_;
  const bool erases_;
  const SegmentStoreConfig config_;
  StoppedClock clock_;
  MemoryFiles files_;
  std::vector<TestRow> rows_;
  std::set<std::uint64_t> durable_, erased_;
  std::uint64_t last_ = 0;
};

TEST(SegmentStoreCrash, GivesTheRightBytesOrNone) {
  images = hits = second_crashes = 0;
  for (std::uint64_t seed = 1; images < 20'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Workload(seed, seed % 3 != 0).run(24);
  }
  EXPECT_GE(images, 20'000);
  EXPECT_GT(hits, images);
  EXPECT_GT(second_crashes, 100);
  std::printf("%lld images, %lld rows found, %lld crashed twice\n", static_cast<long long>(images),
              static_cast<long long>(hits), static_cast<long long>(second_crashes));
}

}  // namespace
}  // namespace pagoda
