#pragma once
// The plot of bench kv-managers: bars, one panel per figure. Plain SVG text.
#include <string>
#include <vector>

namespace pagoda {

struct KvManagersPlot {
  struct Bar {
    std::string label;
    double value = 0;
  };
  std::vector<Bar> kernel, throughput, p99;  // empty panels are omitted
};

std::string kv_managers_svg(const KvManagersPlot& plot);

}  // namespace pagoda
