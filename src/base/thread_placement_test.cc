// Goal: a waiting thread is told from a running one, and moving a thread changes where it runs now but not
// where it may run. What moving gains shows only beside a busy neighbour: bench/peers/run --cases neighbour.
#include "base/thread_placement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>

namespace pagoda {
namespace {

std::vector<int> allowed_cores(int tid) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(tid, sizeof set, &set), 0);
  std::vector<int> out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) out.push_back(cpu);
  }
  return out;
}

TEST(ThreadPlacement, ASleepingThreadIsOffItsCore) {
  std::atomic<int> stage{0};
  ThreadHandle handle;
  std::thread sleeper([&] {
    handle = ThreadHandle::of_this_thread();
    stage.store(1);
    stage.notify_all();
    while (stage.load() == 1) stage.wait(1);
  });
  stage.wait(0);
  bool off = false;
  for (int i = 0; i < 10'000 && !off; ++i) off = off_core(handle);  // until it sleeps
  EXPECT_TRUE(off);
  const std::vector<int> before = allowed_cores(handle.tid);
  move_to_this_core(handle);
  EXPECT_EQ(allowed_cores(handle.tid), before);
  stage.store(2);
  stage.notify_all();
  sleeper.join();
}

TEST(ThreadPlacement, ARunningThreadIsOnItsCore) {
  EXPECT_FALSE(off_core(ThreadHandle::of_this_thread()));
  EXPECT_FALSE(off_core({})) << "nothing is known of nobody";
}

TEST(ThreadPlacement, LeavesACoreAndMayComeBack) {
  const std::vector<int> before = allowed_cores(0);
  leave_cores(before);  // there is no other
  EXPECT_EQ(allowed_cores(0), before);
  leave_cores(std::vector<int>{-1, 1 << 20});
  EXPECT_EQ(allowed_cores(0), before);
  if (before.size() < 2) GTEST_SKIP() << "one core";
  bool left = false;  // the scheduler may bring it back at once
  for (int i = 0; i < 100 && !left; ++i) {
    const int cpu = current_cpu();
    leave_cores(std::vector<int>{cpu});
    left = current_cpu() != cpu;
  }
  EXPECT_TRUE(left);
  EXPECT_EQ(allowed_cores(0), before);
}

}  // namespace
}  // namespace pagoda
#endif
