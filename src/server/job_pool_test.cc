#include "server/job_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <new>
#include <string>
#include <vector>

namespace pagoda {
namespace {

class HandClock final : public Clock {
 public:
  TimeNs now() const override { return time; }
  std::atomic<TimeNs> time{0};
};

constexpr std::size_t kLarge = 1000, kSmall = 10;

// A pool whose threads can be held, and what has run, in order.
struct Rig {
  explicit Rig(JobPool::Options options = {}) : pool(with_sizes(options), clock) {}
  static JobPool::Options with_sizes(JobPool::Options options) {
    options.small_bytes = 100;
    return options;
  }

  // Keeps a thread busy until release(); returns once it is.
  void hold(std::size_t cost) {
    std::promise<void> begun;
    ASSERT_TRUE(pool.submit({.owner = "99",
                             .cost = cost,
                             .work =
                                 [&] {
                                   begun.set_value();
                                   gate.wait();
                                 },
                             .done = nullptr}));
    begun.get_future().wait();
  }
  void release() { open.set_value(); }

  Result<JobPool::JobId> add(int owner, std::size_t cost, std::string name) {
    return pool.submit({.owner = std::to_string(owner),
                        .cost = cost,
                        .work = [this, name] { note(name); },
                        .done = [this](JobPool::End end) { told(end); }});
  }
  void note(const std::string& name) {
    std::lock_guard lock(mutex);
    order += name;
  }
  void told(JobPool::End end) {
    std::lock_guard lock(mutex);
    ends.push_back(end);
    changed.notify_all();
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return ends.size() >= count; }));
  }

  HandClock clock;
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  std::mutex mutex;
  std::condition_variable changed;
  std::string order;
  std::vector<JobPool::End> ends;
  JobPool pool;
};

TEST(JobPool, ALargeJobHoldsNoSmallOneUp) {
  Rig rig;
  rig.hold(kLarge);
  ASSERT_TRUE(rig.add(1, kSmall, "s"));
  rig.wait_for(1);
  EXPECT_EQ(rig.order, "s");
  rig.release();
}

TEST(JobPool, WhoAsksForMuchWaitsForItself) {
  Rig rig;
  rig.hold(kLarge);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.add(1, 5 * kLarge, "A"));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(rig.add(2, kLarge, "b"));
  ASSERT_TRUE(rig.add(3, 2 * kLarge, "c"));
  rig.release();
  rig.wait_for(6);
  EXPECT_EQ(rig.order, "bcAbAA") << "owner 2's second job comes after as much as its first has cost";
}

TEST(JobPool, AnOldJobIsNotOvertakenForEver) {
  Rig rig;
  rig.hold(kLarge);
  ASSERT_TRUE(rig.add(1, 50 * kLarge, "A"));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(rig.add(2, 5 * kLarge, "b"));
  rig.release();
  rig.wait_for(21);
  EXPECT_LT(rig.order.find('A'), 8u) << rig.order;
}

TEST(JobPool, ACancelledJobIsGoneAtOnce) {
  Rig rig({.max_jobs = 1});
  rig.hold(kLarge);
  auto held = std::make_shared<int>(1);
  const auto id = rig.pool.submit(
      {.owner = "1", .cost = kLarge, .work = [held] {}, .done = [&rig](JobPool::End end) { rig.told(end); }});
  ASSERT_TRUE(id);
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_FALSE(rig.add(1, kLarge, "x")) << "one may wait";
  EXPECT_TRUE(rig.pool.cancel(*id));
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(rig.pool.cancel(*id));
  ASSERT_TRUE(rig.add(1, kLarge, "y"));
  rig.release();
  rig.wait_for(1);
  EXPECT_EQ(rig.order, "y");
}

TEST(JobPool, IsBoundedInBytes) {
  Rig rig({.max_bytes = 3 * kLarge});
  rig.hold(kLarge);
  ASSERT_TRUE(rig.add(1, 2 * kLarge, "a"));
  const auto refused = rig.add(2, 2 * kLarge, "b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::resource_exhausted);
  rig.release();
  rig.wait_for(1);
  EXPECT_TRUE(rig.add(2, 2 * kLarge, "b")) << "what runs no longer waits";
  rig.wait_for(2);
}

TEST(JobPool, WhatWaitedTooLongIsNotRun) {
  Rig rig;
  rig.hold(kLarge);
  ASSERT_TRUE(rig.add(1, kLarge, "x"));
  rig.clock.time = 10'000'000'001;
  ASSERT_TRUE(rig.add(1, kLarge, "y"));
  rig.release();
  rig.wait_for(2);
  EXPECT_EQ(rig.order, "y");
  std::ranges::sort(rig.ends);  // two threads tell of them, in either order
  EXPECT_EQ(rig.ends, (std::vector{JobPool::End::done, JobPool::End::late}));
}

TEST(JobPool, ALateJobIsAnsweredWhenItsTimeIsUp) {
  Rig rig;
  rig.hold(kLarge);
  ASSERT_TRUE(rig.add(1, kLarge, "x"));
  rig.clock.time = 10'000'000'001;
  rig.wait_for(1);
  EXPECT_EQ(rig.ends, (std::vector{JobPool::End::late})) << "while the thread is still held";
  EXPECT_EQ(rig.pool.num_waiting(), 0u);
  rig.release();
}

TEST(JobPool, AJobIsLateAtItsDeadline) {
  Rig rig;
  rig.hold(kLarge);
  ASSERT_TRUE(rig.pool.submit({.owner = "1",
                               .cost = kLarge,
                               .work = [&rig] { rig.note("x"); },
                               .done = [&rig](JobPool::End end) { rig.told(end); },
                               .deadline = 500}));
  rig.clock.time = 500;
  rig.wait_for(1);
  EXPECT_EQ(rig.ends, (std::vector{JobPool::End::late}));
  rig.release();
}

TEST(JobPool, WhoFillsItKeepsNobodyElseOut) {
  Rig rig({.max_jobs = 4});
  rig.hold(kLarge);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(rig.add(1, kLarge, "a"));
  EXPECT_FALSE(rig.add(1, kLarge, "a"));
  ASSERT_TRUE(rig.add(2, kLarge, "b"));
  ASSERT_TRUE(rig.add(2, kLarge, "b"));
  EXPECT_FALSE(rig.add(2, kLarge, "b")) << "half is its share";
  rig.release();
  rig.wait_for(6);
  EXPECT_EQ(rig.order, "ababaa");
}

TEST(JobPool, AJobWithoutMemoryFailsAlone) {
  Rig rig;
  ASSERT_TRUE(rig.pool.submit({.owner = "1",
                               .cost = 1,
                               .work = [] { throw std::bad_alloc(); },
                               .done = [&rig](JobPool::End end) { rig.told(end); }}));
  rig.wait_for(1);
  EXPECT_EQ(rig.ends.front(), JobPool::End::out_of_memory);
  ASSERT_TRUE(rig.add(1, kSmall, "s"));
  rig.wait_for(2);
  EXPECT_EQ(rig.ends.back(), JobPool::End::done);
}

TEST(JobPool, StopDropsWhatWaits) {
  Rig rig;
  rig.hold(kLarge);
  ASSERT_TRUE(rig.add(1, kLarge, "x"));
  std::thread stopper([&rig] { rig.pool.stop(); });
  while (rig.pool.num_waiting() > 0) std::this_thread::yield();
  rig.release();
  stopper.join();
  EXPECT_EQ(rig.order, "");
  EXPECT_FALSE(rig.add(1, kSmall, "s"));
}

}  // namespace
}  // namespace pagoda
