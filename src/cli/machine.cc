#include "cli/machine.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "tensor/memory.h"

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

int cgroup_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::numeric_limits<int>::max();
  double allowed = 0;
  std::from_chars(quota.data(), quota.data() + quota.size(), allowed);
  return std::max(1, static_cast<int>(std::ceil(allowed / period)));
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(affinity, cgroup_cores()));
}

std::int64_t available_memory_bytes() {
  std::int64_t available = mem_available();
  const std::int64_t limit = number_in_file("/sys/fs/cgroup/memory.max");
  const std::int64_t used = number_in_file("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) available = std::min(available, std::max<std::int64_t>(0, limit - used));
  return available;
}

double measure_read_bandwidth(ThreadPool& pool) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  constexpr std::int64_t kTile = std::int64_t{1} << 20;
  auto memory = Memory::reserve(kBytes);
  if (!memory) return 0;
  const auto* words = memory->as<std::uint64_t>();
  constexpr std::int64_t kWords = kTile / 8;
  pool.parallel_for(kBytes / kTile, [&](std::int64_t tile, int) {
    std::fill_n(memory->as<std::uint64_t>() + tile * kWords, kWords, static_cast<std::uint64_t>(tile));
  });
  std::atomic<std::uint64_t> sink{0};
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(kBytes / kTile, [&](std::int64_t tile, int) {
      std::uint64_t sum = 0;
      for (std::int64_t i = 0; i < kWords; ++i) sum += words[tile * kWords + i];
      sink.fetch_add(sum, std::memory_order_relaxed);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(kBytes) / seconds);
  }
  return best;
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace pagoda
