#pragma once
// KernelTime: one line of a device profile.
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace pagoda::device {

// The number of launches of a kernel and their total time.
struct KernelTime {
  const char* kernel = "";
  std::int64_t launches = 0;
  double microseconds = 0;
};

// Sums one line per launch to one line per kernel, in order of names.
inline std::vector<KernelTime> sum_by_kernel(const std::vector<KernelTime>& launches) {
  std::map<std::string_view, KernelTime> sums;
  for (const KernelTime& launch : launches) {
    KernelTime& sum = sums[launch.kernel];
    sum.kernel = launch.kernel;
    sum.launches += launch.launches;
    sum.microseconds += launch.microseconds;
  }
  std::vector<KernelTime> lines;
  for (const auto& [kernel, sum] : sums) lines.push_back(sum);
  return lines;
}

}  // namespace pagoda::device
