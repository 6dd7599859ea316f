// A loop that hangs is noticed once; one that is idle, or slow and gets on, is not. And where its threads
// stand.
#include "base/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <semaphore>

#include "base/compute_beats.h"
#include "base/stack_traces.h"
#include "base/thread_pool.h"

namespace pagoda {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, OnlyAStandstillWithWorkIsOne) {
  std::atomic<std::uint64_t> beats{0};
  std::atomic<bool> busy{false}, moving{true};
  std::atomic<int> looks{0}, stalls{0};
  std::binary_semaphore stalled{0};
  const auto beat = [&]() -> std::optional<std::uint64_t> {
    ++looks;
    if (moving) ++beats;
    return busy ? std::optional<std::uint64_t>(beats.load()) : std::nullopt;
  };
  const auto wait_for_looks = [&](int count) {
    const int until = looks + count;
    while (looks < until) std::this_thread::sleep_for(1ms);
  };
  const auto on_stall = [&] {
    ++stalls;
    stalled.release();
  };
  std::optional<Watchdog> watchdog(std::in_place, Watchdog::Options{.tick = 2ms, .max_ticks = 5}, beat,
                                   on_stall);
  wait_for_looks(15);
  moving = false;
  wait_for_looks(15);
  EXPECT_EQ(stalls, 0) << "it is idle";
  busy = moving = true;
  wait_for_looks(15);
  EXPECT_EQ(stalls, 0) << "it gets on";
  moving = false;
  EXPECT_TRUE(stalled.try_acquire_for(20s));
  watchdog.reset();  // waits for its thread
  EXPECT_EQ(stalls, 1);
}

TEST(Watchdog, ComputingIsABeat) {
  ThreadPool pool(2);
  const std::uint64_t before = compute_beats();
  for (int i = 0; i < 3; ++i) pool.parallel_for(4, [](std::int64_t, int) {});
  EXPECT_GE(compute_beats() - before, 3u);
}

TEST(Watchdog, AThreadWithACounterOfItsOwnIsNoOthersBeat) {
  std::atomic<std::uint64_t> own{0};
  const std::uint64_t before = compute_beats();
  std::thread([&own] {
    count_compute_beats(own);
    ThreadPool pool(2);
    for (int i = 0; i < 3; ++i) pool.parallel_for(4, [](std::int64_t, int) {});
  }).join();
  EXPECT_EQ(own, 3u);
  EXPECT_EQ(compute_beats(), before);
}

TEST(StackTraces, TellOfEveryThread) {
  std::binary_semaphore go{0};
  std::thread waiting([&go] { go.acquire(); });
  const std::vector<std::string> traces = stack_traces();
  go.release();
  waiting.join();
  ASSERT_GE(traces.size(), 2u);
  for (const std::string& trace : traces) EXPECT_NE(trace.find("\n  "), std::string::npos) << trace;
}

}  // namespace
}  // namespace pagoda
