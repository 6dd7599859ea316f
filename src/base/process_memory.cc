#include "base/process_memory.h"

#include <unistd.h>

#include <cstdio>

namespace pagoda {

ProcessMemory process_memory() {
  ProcessMemory out;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return out;
  long all = 0, resident = 0, of_files = 0;
  if (std::fscanf(file, "%ld %ld %ld", &all, &resident, &of_files) == 3) {
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    out = {.virtual_bytes = all * page,
           .resident_bytes = resident * page,
           .private_bytes = (resident - of_files) * page};
  }
  std::fclose(file);
  return out;
}

}  // namespace pagoda
