#pragma once
// For a latency-critical thread that does little work each time: requests short scheduling slices, so that
// the thread is scheduled sooner beside threads that compute without pause. Its share of the CPU stays the
// same, and no privilege is needed. A no-op on Linux before 6.12 and on other systems. Source: EEVDF's
// slices, sched_setattr(2). Threads: affects the calling thread.
namespace pagoda {

void prefer_short_turns();

}  // namespace pagoda
