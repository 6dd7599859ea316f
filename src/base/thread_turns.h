#pragma once
// For a thread that has little to do each time, and that others wait for: it asks the system for short turns,
// and so gets them sooner, beside threads that compute without end. Its share of the processor stays the
// same, and no privilege is needed. Linux before 6.12, and other systems: nothing happens. Source: EEVDF's
// slices, sched_setattr(2). Threads: the calling one.
namespace pagoda {

void prefer_short_turns();

}  // namespace pagoda
