#pragma once
// Memory and mappings that the system still allows this process. Read anew at each call.
#include <cstdint>

namespace pagoda {

// Bytes that can be taken without swapping: MemAvailable, or less where a cgroup or setrlimit allows less.
std::int64_t available_memory_bytes();

// vm.max_map_count, less the mappings that exist; a very large number where the system does not tell.
std::int64_t available_mappings();

}  // namespace pagoda
