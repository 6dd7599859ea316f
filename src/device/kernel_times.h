#pragma once
// KernelTime: what a profile of a Device tells of a kernel.
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace pagoda::device {

// Launches of a kernel, and the time that they took.
struct KernelTime {
  const char* kernel = "";
  std::int64_t launches = 0;
  double microseconds = 0;
};

// A line for each kernel, by name, out of a line for each launch.
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
