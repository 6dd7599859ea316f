#include "base/thread_placement.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#endif

namespace pagoda {

#ifdef __linux__

namespace {

constexpr auto kWatch = std::chrono::microseconds(10);

long long cpu_time_ns(int clock) {
  timespec time{};
  if (clock_gettime(static_cast<clockid_t>(clock), &time) != 0) return -1;
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// Moves a thread (0: the calling thread) by briefly restricting it to `wanted`, limited to the cores that it
// may use anyway.
void move_to(int tid, const cpu_set_t& wanted, const cpu_set_t& allowed) {
  cpu_set_t target;
  CPU_AND(&target, &wanted, &allowed);
  if (CPU_COUNT(&target) == 0) return;
  if (sched_setaffinity(tid, sizeof target, &target) == 0) sched_setaffinity(tid, sizeof allowed, &allowed);
}

}  // namespace

ThreadHandle ThreadHandle::of_this_thread() {
  static thread_local const ThreadHandle handle = [] {
    ThreadHandle out;
    clockid_t clock{};
    if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return out;
    out.tid = static_cast<int>(syscall(SYS_gettid));
    out.clock = static_cast<int>(clock);
    return out;
  }();
  return handle;
}

int current_cpu() { return sched_getcpu(); }

bool off_core(ThreadHandle thread) {
  if (thread.tid == 0) return false;
  const long long before = cpu_time_ns(thread.clock);
  const auto end = std::chrono::steady_clock::now() + kWatch;
  while (std::chrono::steady_clock::now() < end) {
  }
  return before >= 0 && cpu_time_ns(thread.clock) == before;
}

void move_to_this_core(ThreadHandle thread) {
  cpu_set_t allowed, here;
  const int cpu = sched_getcpu();
  if (thread.tid == 0 || cpu < 0 || cpu >= CPU_SETSIZE) return;
  if (sched_getaffinity(thread.tid, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&here);
  CPU_SET(static_cast<unsigned>(cpu), &here);
  move_to(thread.tid, here, allowed);
}

void leave_cores(std::span<const int> cores) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  for (const int cpu : cores) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_CLR(static_cast<unsigned>(cpu), &others);
  }
  move_to(0, others, allowed);
}

#else

ThreadHandle ThreadHandle::of_this_thread() { return {}; }
int current_cpu() { return -1; }
bool off_core(ThreadHandle) { return false; }
void move_to_this_core(ThreadHandle) {}
void leave_cores(std::span<const int>) {}

#endif

}  // namespace pagoda
