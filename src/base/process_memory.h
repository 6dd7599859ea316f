#pragma once
// The memory of this process, as the system counts it. Units: bytes; zero where /proc is missing.
// Threads: any.
#include <cstdint>

namespace pagoda {

struct ProcessMemory {
  std::int64_t virtual_bytes = 0, resident_bytes = 0;
  std::int64_t private_bytes = 0;  // the anonymous part of resident_bytes
};

ProcessMemory process_memory();

}  // namespace pagoda
