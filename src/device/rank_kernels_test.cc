// Goal: the kernels by which ranks exchange parts of rows give every rank what all have brought, whoever
// comes first, in launches that are repeated as a graph repeats them; a rank that does not come is named
// after the time that it has, and is not waited for again. Method: a thread and an emulated device for each
// rank; planted faults: ranks that do not meet, a window's end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "device/device_array.h"
#include "device/emulated/emulated_device.h"
#include "device/layer_launches.h"

namespace pagoda::device {
namespace {

using emulated::EmulatedDevice;

constexpr std::int64_t kRows = 3, kHalf = 64;

// A rank's device, window and rows. Windows are opened once all ranks are there.
struct Rank {
  explicit Rank(std::int32_t rank, std::int32_t size, std::uint64_t seed) {
    auto opened = EmulatedDevice::create({.seed = seed + static_cast<std::uint64_t>(rank)});
    CHECK(opened);
    device = *std::move(opened);
    stream = *device->create_stream();
    auto made = device->create_window((kWordsOfWindow + 2 * kHalf) * sizeof(float));
    if (!made) ADD_FAILURE() << made.error().message();
    window = *made;
    std::fill_n(reinterpret_cast<std::uint32_t*>(window.memory), kWordsOfWindow, 0);
    group = {.words = {},
             .own = reinterpret_cast<WindowWords*>(window.memory),
             .rank = rank,
             .size = size,
             .half = kHalf};
  }
  void open(std::vector<std::unique_ptr<Rank>>& ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      std::byte* const memory =
          ranks[i].get() == this ? window.memory : *device->open_window(ranks[i]->window.handle);
      group.words[i] = reinterpret_cast<WindowWords*>(memory);
    }
    LayerLaunches own(*device, stream);
    launches = std::make_unique<LayerLaunches>(own);
  }
  DeviceArray<float> put(const std::vector<float>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    auto there = DeviceArray<float>::create(*device, count, "rows");
    auto here = PinnedArray<float>::create(*device, count);
    std::ranges::copy(values, here->data());
    CHECK(device->copy_in(stream, there->bytes(), here->bytes(), values.size() * sizeof(float)).ok());
    CHECK(device->synchronize(stream).ok());
    return *std::move(there);
  }
  std::vector<float> get(const DeviceArray<float>& values) {
    auto here = PinnedArray<float>::create(*device, values.count());
    CHECK(
        device->copy_out(stream, here->bytes(), values.bytes(), static_cast<std::size_t>(values.size_bytes()))
            .ok());
    status = device->synchronize(stream);
    return {here->data(), here->data() + values.count()};
  }

  std::unique_ptr<EmulatedDevice> device;
  StreamId stream{};
  Window window;
  RankGroup group;
  std::unique_ptr<LayerLaunches> launches;
  Status status;
};

std::vector<std::unique_ptr<Rank>> make_ranks(std::int32_t size, std::uint64_t seed) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::int32_t rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<Rank>(rank, size, seed));
  for (const auto& rank : ranks) rank->open(ranks);
  return ranks;
}

// Runs `body` for each rank on a thread of its own.
template <class Body>
void together(std::vector<std::unique_ptr<Rank>>& ranks, const Body& body) {
  std::vector<std::thread> threads;
  for (auto& rank : ranks) threads.emplace_back([&body, &rank = *rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

// Rank r has r + 1 columns: element [row, c] of round `round`.
float value_of(std::int32_t round, std::int64_t row, std::int64_t column) {
  return static_cast<float>(1000 * round + 100 * row + column);
}
std::int64_t first_of(std::int32_t rank) { return std::int64_t{rank} * (rank + 1) / 2; }

std::vector<float> part_of(const RankGroup& group, std::int32_t round) {
  std::vector<float> part;
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t c = 0; c <= group.rank; ++c)
      part.push_back(value_of(round, row, first_of(group.rank) + c));
  return part;
}

CollectRowsArgs collect_of(const RankGroup& group, float* out) {
  CollectRowsArgs args = {.group = group, .out = {out, first_of(group.size)}, .ends = {}};
  for (std::int32_t rank = 0; rank < group.size; ++rank)
    args.ends[rank] = static_cast<std::int32_t>(first_of(rank + 1));
  return args;
}

TEST(RankKernels, EveryRankGetsAllPartsInEveryRound) {
  for (const std::int32_t size : {1, 2, 3, 8})
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(size);
      auto ranks = make_ranks(size, seed);
      together(ranks, [](Rank& rank) {
        for (std::int32_t round = 0; round < 7; ++round) {
          const DeviceArray<float> own = rank.put(part_of(rank.group, round)),
                                   all = rank.put(std::vector<float>(
                                       static_cast<std::size_t>(kRows * first_of(rank.group.size))));
          const std::int32_t width = rank.group.rank + 1;
          CHECK(rank.launches
                    ->share_rows({.group = rank.group, .rows = {own.data(), width}, .width = width}, kRows)
                    .ok());
          CHECK(rank.launches->meet_ranks({.group = rank.group, .patience = 60'000'000'000}).ok());
          CHECK(rank.launches->collect_rows(collect_of(rank.group, all.data()), kRows).ok());
          const std::vector<float> got = rank.get(all);
          ASSERT_TRUE(rank.status.ok()) << rank.status.message();
          for (std::int64_t i = 0; i < std::ssize(got); ++i)
            ASSERT_EQ(got[static_cast<std::size_t>(i)],
                      value_of(round, i / first_of(rank.group.size), i % first_of(rank.group.size)));
        }
      });
    }
}

TEST(RankKernels, SumsAreInTheOrderOfRanks) {
  auto ranks = make_ranks(3, 2);
  together(ranks, [](Rank& rank) {
    // (1 + 2^24) + 1 is 2^24 twice rounded; other orders give 2^24 + 2.
    const float brought[] = {1, 16777216, 1};
    const DeviceArray<float> rows = rank.put({brought[rank.group.rank], 2});
    CHECK(rank.launches->share_rows({.group = rank.group, .rows = {rows.data(), 2}, .width = 2}, 1).ok());
    CHECK(rank.launches->meet_ranks({.group = rank.group, .patience = 60'000'000'000}).ok());
    CHECK(rank.launches->sum_rows({.group = rank.group, .out = {rows.data(), 2}, .width = 2}, 1).ok());
    EXPECT_EQ(rank.get(rows), (std::vector<float>{16777216, 6}));
  });
}

TEST(RankKernels, ARankThatDoesNotComeIsNamedAndNotWaitedForAgain) {
  auto ranks = make_ranks(3, 4);
  const auto start = std::chrono::steady_clock::now();
  together(ranks, [](Rank& rank) {
    if (rank.group.rank == 1) return;
    for (std::int32_t round = 0; round < 20; ++round)
      CHECK(rank.launches->meet_ranks({.group = rank.group, .patience = 300'000'000}).ok());
    EXPECT_TRUE(rank.device->synchronize(rank.stream).ok());
    EXPECT_EQ(reinterpret_cast<const WindowWords*>(rank.window.memory)->lost, 2u);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// Planted: whoever reads before the others have come finds what nobody has written.
TEST(RankKernels, WhoDoesNotMeetTheOthersMissesTheirParts) {
  auto ranks = make_ranks(2, 1);
  Rank& rank = *ranks[0];
  auto* const words = reinterpret_cast<WindowWords*>(rank.window.memory);
  const DeviceArray<float> own = rank.put(part_of(rank.group, 0)),
                           all = rank.put(std::vector<float>(static_cast<std::size_t>(kRows * first_of(2))));
  CHECK(rank.launches->share_rows({.group = rank.group, .rows = {own.data(), 1}, .width = 1}, kRows).ok());
  CHECK(rank.device->synchronize(rank.stream).ok());
  words->rounds = 1;
  CHECK(rank.launches->collect_rows(collect_of(rank.group, all.data()), kRows).ok());
  const std::vector<float> got = rank.get(all);
  EXPECT_EQ(got[0], value_of(0, 0, 0));
  EXPECT_TRUE(std::isnan(got[1]) && std::isnan(got[2]));
}

// Planted: rows that are wider than half a window run into the next half, and at last beyond its end.
TEST(RankKernels, AWindowHasAnEnd) {
  auto ranks = make_ranks(2, 1);
  Rank& rank = *ranks[0];
  const DeviceArray<float> own = rank.put(std::vector<float>(2 * kHalf + 1));
  CHECK(
      rank.launches
          ->share_rows({.group = rank.group, .rows = {own.data(), 2 * kHalf + 1}, .width = 2 * kHalf + 1}, 1)
          .ok());
  const Status status = rank.device->synchronize(rank.stream);
  EXPECT_NE(status.message().find("of a window, which has 768 bytes"), std::string::npos) << status.message();
}

TEST(RankKernels, AHandleOfNoWindowIsRefused) {
  auto ranks = make_ranks(1, 1);
  EXPECT_EQ(ranks[0]->device->open_window(WindowHandle{}).error().code(), StatusCode::unavailable);
}

TEST(RankKernels, ExchangesAreCountedAndTold) {
  auto device = EmulatedDevice::create({});
  ASSERT_TRUE(device);
  const StreamId stream = *(*device)->create_stream();
  auto words = DeviceArray<std::uint32_t>::create(**device, 2, "counts");
  auto here = PinnedArray<std::uint32_t>::create(**device, 2);
  here->data()[0] = 0xFFFFFFFF;  // it wraps
  here->data()[1] = 5;
  ASSERT_TRUE((*device)->copy_in(stream, words->bytes(), here->bytes(), 8).ok());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(launch(**device, stream, kernel(**device, KernelId::count_exchange),
                       LaunchShape{.grid = {1}, .block = {kWarp}},
                       CountExchangeArgs{.count = words->data(), .told = words->data() + 1})
                    .ok());
  ASSERT_TRUE((*device)->copy_out(stream, here->bytes(), words->bytes(), 8).ok());
  ASSERT_TRUE((*device)->synchronize(stream).ok());
  EXPECT_EQ(here->data()[0], 2u);
  EXPECT_EQ(here->data()[1], 2u);
}

}  // namespace
}  // namespace pagoda::device
