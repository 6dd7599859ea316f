#pragma once
// Usable cores and measured memory bandwidth of this machine. Read once at start, by the commands that size
// or report something.
#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/memory.h"
#include "tensor/system_limits.h"  // available_memory_bytes()

namespace pagoda {

// Cores this process may run on (affinity and cgroup quota, at least 1).
int usable_cores();

// Those that a cgroup grants it, wherever they are; very many without one.
int granted_cores();

// Reads memory that no cache holds, on all threads of the pool, in huge pages as weights are. Machines share
// their memory with others: what is measured holds for this very second.
class ReadProbe {
 public:
  explicit ReadProbe(ThreadPool& pool);  // takes 256 MiB; the pool must outlive it
  double bytes_per_second();             // the median of several passes; 0 where there is no memory for it

 private:
  ThreadPool& pool_;
  Memory memory_;
};

// Peak resident set of this process so far, in bytes.
std::int64_t peak_resident_bytes();

}  // namespace pagoda
