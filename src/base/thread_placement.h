#pragma once
// Which core a pool's threads run on, for when there are more runnable threads than cores. A scheduler shares
// cores fairly; it does not know that one thread waits for another. So it may leave two of ours on one core
// beside a neighbour that has the other for itself, or take the core from one in the midst of a tile while
// its siblings wait. Not a binding: threads may run wherever they might before; they are only moved once.
// Outside Linux nothing is known and nothing is moved. Threads: any.
#include <span>

namespace pagoda {

// A thread of this process, while it lives.
struct ThreadHandle {
  int tid = 0;
  int clock = 0;  // its CPU time
  static ThreadHandle of_this_thread();
};

int current_cpu();  // -1: not known

// Whether the thread is not running, be it asleep or in the queue of a core. Takes some 10 microseconds.
bool off_core(ThreadHandle thread);

// A thread that waits for a core now waits for the caller's, which goes on until it yields or sleeps.
void move_to_this_core(ThreadHandle thread);

// The calling thread goes on elsewhere than on these cores (-1: none), if there is any other that it may use.
void leave_cores(std::span<const int> cores);

}  // namespace pagoda
