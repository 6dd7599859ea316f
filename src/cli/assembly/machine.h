#pragma once
// Usable cores and measured memory bandwidth of this machine, for commands that size or report something.
// Read once at start.
#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/memory.h"
#include "tensor/system_limits.h"  // available_memory_bytes()

namespace pagoda {

// The number of cores this process may run on (affinity and cgroup quota, at least 1).
int usable_cores();

// The number of cores granted by the cgroup, regardless of affinity; a very large number without a quota.
int granted_cores();

// Reads memory that is in no cache, on all threads of the pool, in huge pages as used for weights. Other
// programs share the memory bandwidth, so a measurement holds only for the moment.
class ReadProbe {
 public:
  explicit ReadProbe(ThreadPool& pool);  // takes 256 MiB; the pool must outlive it
  double bytes_per_second();             // the median of several passes; 0 if there is not enough memory

 private:
  ThreadPool& pool_;
  Memory memory_;
};

// Peak resident set size of this process, in bytes.
std::int64_t peak_resident_bytes();

}  // namespace pagoda
