#pragma once
// ThreadCpuClock: the time that the calling thread has computed, for limits on work that a busy machine must
// not turn into failures. Not the time of day, and not comparable between threads. Threads: any.
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
