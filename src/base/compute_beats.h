#pragma once
// Counts the jobs that thread pools have received, so that a watchdog can tell a long step, whose count
// advances, from a hung one. Threads: any.
#include <atomic>
#include <cstdint>

namespace pagoda {

// The shared count of all threads that have no counter of their own.
std::uint64_t compute_beats();
// From now on the calling thread counts into `counter`, which must outlive the thread.
void count_compute_beats(std::atomic<std::uint64_t>& counter);
// The calling thread's counter, to be passed to a thread that works on its behalf.
std::atomic<std::uint64_t>& beats_of_this_thread();

}  // namespace pagoda
