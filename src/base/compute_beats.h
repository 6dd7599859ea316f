#pragma once
// How often thread pools have been given work, for a watchdog: a step that is long gets on, one that hangs
// does not. Threads: any.
#include <atomic>
#include <cstdint>

namespace pagoda {

// The count of all threads of the process that have no counter of their own.
std::uint64_t compute_beats();
// From here on the calling thread counts there; the counter must outlive it.
void count_compute_beats(std::atomic<std::uint64_t>& counter);
// The calling thread's counter, for a thread that works for it.
std::atomic<std::uint64_t>& beats_of_this_thread();

}  // namespace pagoda
