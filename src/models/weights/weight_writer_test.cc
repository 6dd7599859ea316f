// Goal: packed weights in use get into the cache's file behind the answers: not before their time, whole or
// not at all, without a look at them once the writer has gone.
#include "models/weights/weight_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>

#include "base/strings.h"
#include "loader/test_files.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;
using testing::ScratchFolder;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMiB = 1 << 20;

// A writer of three pieces into a cache of its own, and everything that it says.
struct Case {
  explicit Case(std::int64_t bytes, std::int64_t max_bytes = std::int64_t{1} << 30)
      : cache(scratch.path() + "/weights", max_bytes) {
    for (const std::int64_t size : {std::int64_t{10}, bytes, std::int64_t{0}})
      memory.emplace_back(static_cast<std::size_t>(size), static_cast<std::byte>(memory.size() + 1));
  }
  std::unique_ptr<WeightWriter> start() {
    std::vector<WeightPiece> pieces;
    for (const auto& each : memory) pieces.push_back({concat("piece ", pieces.size()), "described", each});
    const auto keep = [this](std::vector<std::string>& lines) {
      return [this, &lines](std::string_view line) {
        const std::lock_guard lock(mutex);
        lines.emplace_back(line);
      };
    };
    return std::make_unique<WeightWriter>(shared, cache, PackedFileHead{.key = "key", .source = "model"},
                                          std::move(pieces),
                                          WritingReport{.say = keep(said), .warn = keep(warned)});
  }
  Status finish() const {
    return shared->finish([](const WeightWriting::State&) { return false; });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    std::error_code error;
    for (std::filesystem::directory_iterator at(cache.folder(), error), end; !error && at != end; ++at)
      out.push_back(at->path().extension());
    return out;
  }

  ScratchFolder scratch;
  WeightCache cache;
  std::vector<std::vector<std::byte>> memory;
  std::shared_ptr<WeightWriting> shared = std::make_shared<WeightWriting>();
  std::mutex mutex;
  std::vector<std::string> said, warned;
};

TEST(WeightWriter, WritesWhatIsInUse) {
  Case test(3 * kMiB + 17);
  WeightWriting::State last;
  test.shared->watch([&](const WeightWriting::State& state) { last = state; });
  {
    const auto writer = test.start();
    EXPECT_TRUE(test.finish().ok());
  }
  EXPECT_EQ(last.bytes, 3 * kMiB + 27);
  EXPECT_EQ(last.written_bytes, last.bytes);
  EXPECT_EQ(last.failures, 0);
  const auto file = test.cache.open("key", nullptr);
  ASSERT_TRUE(file);
  for (std::size_t i = 0; i < test.memory.size(); ++i) {
    const PackedPiece* const piece = (*file)->find(concat("piece ", i));
    ASSERT_NE(piece, nullptr);
    EXPECT_EQ(piece->description, "described");
    EXPECT_TRUE(std::ranges::equal(piece->bytes, test.memory[i]));
  }
  EXPECT_EQ(test.said.size(), 1u);
  EXPECT_TRUE(test.warned.empty());
  // A second one finds it there.
  const auto writer = test.start();
  EXPECT_TRUE(test.finish().ok());
  EXPECT_EQ(test.said.size(), 1u);
}

TEST(WeightWriter, WaitsForTheFirstAnswer) {
  Case test(kMiB);
  auto writer = test.start();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(test.names().empty());
  test.shared->begin();
  for (const auto begin = Clock::now(); !test.cache.has("key");) {
    ASSERT_LT(Clock::now() - begin, WeightWriting::kGrace / 2);
    std::this_thread::yield();
  }
}

// The disk's share is bounded: twice what a fourth of a second allows takes at least that.
TEST(WeightWriter, TakesItsTimeUnlessAskedToHurry) {
  Case test(WeightWriting::kBytesPerSecond / 2);
  const auto writer = test.start();
  const auto begin = Clock::now();
  test.shared->begin();
  while (!test.cache.has("key")) {
    ASSERT_LT(Clock::now() - begin, std::chrono::seconds(60));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_GT(Clock::now() - begin, milliseconds(250));
}

// At any moment: while it waits, writes and flushes. What it read is freed, so that a sanitizer sees a look.
TEST(WeightWriter, EndsAtOnceWithoutAFile) {
  for (int round = 0; round < 13; ++round) {
    Case test(24 * kMiB);
    std::atomic<std::int64_t> written = 0;
    test.shared->watch([&](const WeightWriting::State& state) { written = state.written_bytes; });
    auto writer = test.start();
    if (round > 0) test.shared->begin();
    const std::int64_t until = 2 * (round - 1) * kMiB;
    for (const auto begin = Clock::now(); written < until;) {
      ASSERT_LT(Clock::now() - begin, std::chrono::seconds(60));
      std::this_thread::yield();
    }
    writer.reset();
    test.memory.clear();
    const bool whole = test.cache.has("key");
    EXPECT_EQ(test.finish().code(), whole ? StatusCode::ok : StatusCode::cancelled);
    for (const std::string& name : test.names()) EXPECT_EQ(name, ".packed");
    EXPECT_EQ(test.names().size(), whole ? 1u : 0u);
    EXPECT_TRUE(test.warned.empty());
  }
}

TEST(WeightWriter, WhoeverWaitsMayGiveUp) {
  Case test(64 * kMiB);
  const auto writer = test.start();
  EXPECT_EQ(test.shared->finish([](const WeightWriting::State&) { return true; }).code(),
            StatusCode::cancelled);
  EXPECT_EQ(test.finish().code(), StatusCode::cancelled) << "the writer has ended, too";
  EXPECT_TRUE(test.names().empty());
}

TEST(WeightWriter, SaysOnceWhyThereIsNoFile) {
  Case test(kMiB, 1000);
  WeightWriting::State last;
  test.shared->watch([&](const WeightWriting::State& state) { last = state; });
  const auto writer = test.start();
  EXPECT_EQ(test.finish().code(), StatusCode::resource_exhausted);
  EXPECT_EQ(test.finish().code(), StatusCode::resource_exhausted);
  ASSERT_EQ(test.warned.size(), 1u);
  EXPECT_TRUE(test.warned.front().starts_with("packed weights are not kept on disk: packed weights of "));
  EXPECT_EQ(last.failures, 1);
  EXPECT_EQ(last.bytes, 0);
}

// Two processes with the same model: one of them writes, neither fails. Locks belong to descriptors, so that
// two threads do as well.
TEST(WeightWriter, TwoWriteOneFile) {
  for (int round = 0; round < 8; ++round) {
    Case test(2 * kMiB);
    const auto first = test.start(), second = test.start();
    EXPECT_TRUE(test.finish().ok());
    EXPECT_TRUE(test.cache.has("key"));
    EXPECT_EQ(test.names().size(), 1u);
    EXPECT_TRUE(test.warned.empty());
  }
}

}  // namespace
}  // namespace pagoda
