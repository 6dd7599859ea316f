#include "cli/assembly/machine.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

namespace pagoda {
namespace {

constexpr std::int64_t kProbeBytes = std::int64_t{256} << 20, kProbeTile = std::int64_t{1} << 20;
constexpr std::int64_t kProbeAhead = 1024;  // prefetch distance in words: 8 KiB, which some processors need
constexpr std::int64_t kProbeWords = kProbeTile / 8;  // per tile

}  // namespace

int granted_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::numeric_limits<int>::max();
  double allowed = 0;
  std::from_chars(quota.data(), quota.data() + quota.size(), allowed);
  return std::max(1, static_cast<int>(std::ceil(allowed / period)));
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(affinity, granted_cores()));
}

ReadProbe::ReadProbe(ThreadPool& pool) : pool_(pool) {
  auto memory = Memory::reserve(kProbeBytes);
  if (!memory) return;
  memory_ = *std::move(memory);
  auto* const words = memory_.as<std::uint64_t>();
  pool_.parallel_for(kProbeBytes / kProbeTile, [&](std::int64_t tile, int) {
    std::fill_n(words + tile * kProbeWords, kProbeWords, static_cast<std::uint64_t>(tile));
  });
}

double ReadProbe::bytes_per_second() {
  const auto* const words = memory_.as<std::uint64_t>();
  if (words == nullptr) return 0;
  std::atomic<std::uint64_t> sink{0};
  std::array<double, 5> rates{};
  for (double& rate : rates) {
    const auto start = std::chrono::steady_clock::now();
    pool_.parallel_for(kProbeBytes / kProbeTile, [&](std::int64_t tile, int) {
      std::uint64_t sum = 0;
      const std::uint64_t* const own = words + tile * kProbeWords;
      for (std::int64_t line = 0; line < kProbeWords; line += 8) {
        __builtin_prefetch(own + line + kProbeAhead);
        for (std::int64_t i = 0; i < 8; ++i) sum += own[line + i];
      }
      sink.fetch_add(sum, std::memory_order_relaxed);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rate = static_cast<double>(kProbeBytes) / seconds;
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace pagoda
