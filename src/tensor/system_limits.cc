#include "tensor/system_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "tensor/memory_limits.h"

namespace pagoda {
namespace {

// Returns the first number in a one-line file such as a cgroup's memory.max; -1 if absent or "max".
std::int64_t number_in_file(const char* path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return -1;
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} ? value : -1;
}

std::int64_t mem_available() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::int64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return 0;
}

}  // namespace

std::int64_t available_memory_bytes() {
  const FileReader read = [](const std::string& path) -> std::optional<std::string> {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto limit_of = [](int resource) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
      return kNoMemoryLimit;
    return static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoMemoryLimit));
  };
  const std::int64_t by_rlimit = rlimit_headroom(read, limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA));
  return std::min({mem_available(), cgroup_headroom(read), by_rlimit});
}

std::int64_t available_mappings() {
  const std::int64_t limit = number_in_file("/proc/sys/vm/max_map_count");
  if (limit < 0) return std::numeric_limits<std::int64_t>::max();
  std::ifstream maps("/proc/self/maps");
  std::int64_t used = 0;
  for (std::string line; std::getline(maps, line);) ++used;
  return std::max<std::int64_t>(0, limit - used);
}

}  // namespace pagoda
