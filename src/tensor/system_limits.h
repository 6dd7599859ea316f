#pragma once
// Memory and mappings that the system still allows this process. Read anew at each call.
#include <cstdint>

namespace pagoda {

// Bytes that can be taken without swapping: MemAvailable, or less if a cgroup or setrlimit limits it.
std::int64_t available_memory_bytes();

// vm.max_map_count minus the existing mappings; a very large number if unknown.
std::int64_t available_mappings();

}  // namespace pagoda
