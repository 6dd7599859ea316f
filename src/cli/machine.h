#pragma once
// What this machine offers: usable cores and measured memory bandwidth. Read once at
// start, by the commands that size or report something.
#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/system_limits.h"  // available_memory_bytes()

namespace pagoda {

// Cores this process may run on (affinity and cgroup quota, at least 1).
int usable_cores();

// Read bandwidth over a buffer larger than the caches, in bytes per second: best of several passes.
double measure_read_bandwidth(ThreadPool& pool);

// Peak resident set of this process so far, in bytes.
std::int64_t peak_resident_bytes();

}  // namespace pagoda
