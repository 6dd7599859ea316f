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
