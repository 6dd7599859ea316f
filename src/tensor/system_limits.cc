#include "tensor/system_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>

namespace pagoda {
namespace {

// First number in a one-line file such as a cgroup's memory.max; -1 when absent or "max".
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
  std::int64_t available = mem_available();
  const std::int64_t limit = number_in_file("/sys/fs/cgroup/memory.max");
  const std::int64_t used = number_in_file("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) available = std::min(available, std::max<std::int64_t>(0, limit - used));
  return available;
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
