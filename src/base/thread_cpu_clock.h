#pragma once
// ThreadCpuClock: the CPU time of the calling thread, for limits on work that must not fail merely because
// the machine is busy. Not wall-clock time, and not comparable between threads. Threads: any.
#include <ctime>

#include "base/clock.h"

namespace pagoda {

class ThreadCpuClock final : public Clock {
 public:
  TimeNs now() const override {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return TimeNs{1'000'000'000} * time.tv_sec + time.tv_nsec;
  }
};

}  // namespace pagoda
