#include "base/thread_turns.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace pagoda {

void prefer_short_turns() {
#ifdef SYS_sched_setattr
  struct Attributes {  // the first version of struct sched_attr
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;  // ns
  };
  constexpr std::uint64_t kShortest = 100'000;  // the scheduler's minimum slice
  const Attributes wanted{.size = sizeof(Attributes),
                          .policy = SCHED_OTHER,
                          .flags = 0,
                          .nice = ::getpriority(PRIO_PROCESS, 0),
                          .priority = 0,
                          .runtime = kShortest,
                          .deadline = 0,
                          .period = 0};
  (void)::syscall(SYS_sched_setattr, 0, &wanted, 0);
#endif
}

}  // namespace pagoda
