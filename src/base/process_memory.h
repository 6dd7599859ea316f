#pragma once
// What the system says this process takes. Units: bytes; zeros where /proc is not there. Threads: any.
#include <cstdint>

namespace pagoda {

struct ProcessMemory {
  std::int64_t virtual_bytes = 0, resident_bytes = 0;
  std::int64_t private_bytes = 0;  // of the latter, not of files
};

ProcessMemory process_memory();

}  // namespace pagoda
