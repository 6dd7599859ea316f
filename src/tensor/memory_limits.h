#pragma once
// The memory that the process may still take under the limits of its cgroups (v1 and v2, from its own up to
// the visible root) and of setrlimit. Reclaimable file cache of a cgroup does not count as used. Reads the
// kernel's files through a function, which tests replace. Units: bytes.
// Threads: any.
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace pagoda {

// Returns the content of a small file; nullopt if absent.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

inline constexpr std::int64_t kNoMemoryLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t cgroup_headroom(const FileReader& read);
// Bytes left below RLIMIT_AS and RLIMIT_DATA, according to /proc/self/status.
std::int64_t rlimit_headroom(const FileReader& read, std::int64_t address_space, std::int64_t data);

}  // namespace pagoda
