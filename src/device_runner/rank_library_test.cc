// Goal: a rank that waits for others in the device's library is not left there: one that does not come in
// time, that has given up, or of which the library reports an error ends the step with the reason; a step
// whose exchanges go on, and an engine that is idle, may take any time. Method: two ranks as threads, each
// with an emulated device, whose library is device/cuda/fake_nccl.cpp.
#include "device_runner/rank_library.h"

#include <gtest/gtest.h>

#include <thread>

#include "device/cuda/fake_library.h"
#include "device/emulated/emulated_device.h"
#include "distributed/shared_memory.h"

namespace pagoda::device_runner {
namespace {

using device::emulated::EmulatedDevice;

struct LibraryRank {
  LibraryRank(std::shared_ptr<SharedMemoryGroup> group, std::int32_t rank, RankTimeout timeout)
      : communicator(std::move(group), rank) {
    auto made = EmulatedDevice::create({.seed = static_cast<std::uint64_t>(rank), .nccl = PAGODA_FAKE_NCCL});
    CHECK(made);
    device = *std::move(made);
    stream = *device->create_stream();
    CHECK(device->open_collectives().ok());
    auto library_made =
        RankLibrary::create(*device, stream, {.communicator = &communicator, .timeout = timeout}, 8);
    CHECK(library_made);
    library = *std::move(library_made);
  }
  Status sum() { return device->sum_over_group(stream, floats(), 4); }
  float* floats() const {
    return reinterpret_cast<float*>(library->ranks().group.own) + device::kWordsOfWindow;
  }
  // A step of one exchange.
  Status step() {
    library->begin();
    if (Status status = sum(); !status.ok()) return status;
    return library->check();
  }

  SharedMemoryCommunicator communicator;
  std::unique_ptr<EmulatedDevice> device;
  device::StreamId stream{};
  std::unique_ptr<RankLibrary> library;
};

// The result of step() on rank 0 while rank 1, which has connected, does `other`.
template <class Other>
Status step_beside(RankTimeout timeout, const Other& other) {
  auto group = SharedMemoryGroup::create(2);
  CHECK(group.has_value());
  LibraryRank first(*group, 0, timeout), second(*group, 1, timeout);
  std::thread thread([&] {
    const Status connected = second.library->connect();
    EXPECT_TRUE(connected.ok()) << connected.message();
    other(second);
  });
  Status status = first.library->connect();
  if (status.ok()) status = first.step();
  thread.join();
  return status;
}

TEST(RankLibrary, ExchangesWithARankThatComes) {
  const Status status = step_beside(RankTimeout(5'000), [](LibraryRank& rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(rank.step().ok());
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(RankLibrary, DoesNotWaitForEverForARank) {
  const Status status = step_beside(RankTimeout(200), [](LibraryRank&) {});
  EXPECT_EQ(status.code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(status.message(), "a rank did not deliver its part to rank 0 within 200 ms");
}

TEST(RankLibrary, LearnsThatARankHasGivenUp) {
  const Status status = step_beside(RankTimeout(60'000), [](LibraryRank& rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rank.communicator.abort("its device is lost");
  });
  EXPECT_EQ(status.message(), "rank 1 gave up: its device is lost");
}

TEST(RankLibrary, TellsWhatTheLibraryReports) {
  device::FakeLibrary fake(PAGODA_FAKE_NCCL);
  const Status status = step_beside(RankTimeout(2'000), [&](LibraryRank& rank) {
    fake.reset("async", 2);
    EXPECT_FALSE(rank.step().ok());
  });
  fake.reset();
  EXPECT_NE(status.message().find("ncclCommGetAsyncError: unhandled system error (2)"), std::string::npos)
      << status.message();
}

TEST(RankLibrary, CountsOnlyTheTimeOfOneExchange) {
  constexpr std::chrono::milliseconds kPause{150};
  auto group = SharedMemoryGroup::create(2);
  ASSERT_TRUE(group.has_value());
  LibraryRank first(*group, 0, RankTimeout(400)), second(*group, 1, RankTimeout(400));
  const auto run = [&](LibraryRank& rank) {
    ASSERT_TRUE(rank.library->connect().ok());
    std::this_thread::sleep_for(4 * kPause);  // idle
    rank.library->begin();
    for (int i = 0; i < 6; ++i) {
      if (&rank == &second) std::this_thread::sleep_for(kPause);
      ASSERT_TRUE(rank.sum().ok());
      ASSERT_TRUE(rank.device->synchronize(rank.stream).ok());
    }
    const Status status = rank.library->check();
    EXPECT_TRUE(status.ok()) << status.message();
  };
  std::thread thread([&] { run(second); });
  run(first);
  thread.join();
}

}  // namespace
}  // namespace pagoda::device_runner
