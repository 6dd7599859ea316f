#pragma once
// Controls which cores a pool's threads run on when there are more runnable threads than cores. The system's
// scheduler shares cores fairly but does not know that one thread waits for another. It may leave two of our
// threads on one core while another process has a core to itself, or preempt a thread in the middle of a tile
// while its siblings wait. Not a binding: threads may still run on every core that they could use before;
// they are only moved once. On systems other than Linux, nothing is known and nothing is moved. Threads: any.
#include <span>

namespace pagoda {

// A thread of this process; valid while the thread lives.
struct ThreadHandle {
  int tid = 0;
  int clock = 0;  // id of its CPU-time clock
  static ThreadHandle of_this_thread();
};

int current_cpu();  // -1 if unknown

// True if the thread is not running, whether asleep or queued for a core. Takes about 10 microseconds.
bool off_core(ThreadHandle thread);

// Moves a thread that waits for a core to the caller's core; the caller keeps running until it yields or
// sleeps.
void move_to_this_core(ThreadHandle thread);

// Moves the calling thread off these cores (-1: ignored), if it may use any other core.
void leave_cores(std::span<const int> cores);

}  // namespace pagoda
