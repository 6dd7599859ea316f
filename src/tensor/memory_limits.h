#pragma once
// How much memory a process may still take by the limits of its cgroups (v1 and v2, on the whole path from
// its own up to the root that can be seen) and of setrlimit. What a cgroup's file cache could give back does
// not count as used. Reads what the kernel shows by a function that tests put in place. Units: bytes.
// Threads: any.
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace pagoda {

// The whole of a small file; nullopt: there is none.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

inline constexpr std::int64_t kNoMemoryLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t cgroup_headroom(const FileReader& read);
// Bytes left below RLIMIT_AS and RLIMIT_DATA, by /proc/self/status.
std::int64_t rlimit_headroom(const FileReader& read, std::int64_t address_space, std::int64_t data);

}  // namespace pagoda
