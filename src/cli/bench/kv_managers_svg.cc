#include "cli/bench/kv_managers_svg.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr double kLabels = 230, kBars = 420, kRow = 18, kTitle = 34;

void panel(const std::vector<KvManagersPlot::Bar>& bars, const char* title, double& y, std::string& out) {
  if (bars.empty()) return;
  out += concat("<text x=\"10\" y=\"", fixed(y + 22, 0), "\" font-weight=\"bold\">", title, "</text>\n");
  y += kTitle;
  double largest = 0;
  for (const auto& bar : bars) largest = std::max(largest, bar.value);
  for (const auto& bar : bars) {
    const double width = largest > 0 ? kBars * bar.value / largest : 0;
    const char* const color = bar.label.starts_with("virtual") ? "#2a7"
                              : bar.label.starts_with("paged") ? "#47b"
                                                               : "#b84";
    out += concat("<text x=\"", kLabels - 8, "\" y=\"", fixed(y + 12, 0), "\" text-anchor=\"end\">",
                  bar.label, "</text>\n<rect x=\"", kLabels, "\" y=\"", fixed(y, 0), "\" width=\"",
                  fixed(width, 1), "\" height=\"", kRow - 4, "\" fill=\"", color, "\"/>\n<text x=\"",
                  fixed(kLabels + width + 5, 0), "\" y=\"", fixed(y + 12, 0), "\">", fixed(bar.value, 1),
                  "</text>\n");
    y += kRow;
  }
}

}  // namespace

std::string kv_managers_svg(const KvManagersPlot& plot) {
  std::string body;
  double y = 0;
  panel(plot.kernel, "Attention, decode: microseconds per layer (less is better)", y, body);
  panel(plot.throughput, "Serving: output tokens per second (more is better)", y, body);
  panel(plot.p99, "Serving: 99th percentile between two tokens, ms (less is better)", y, body);
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"", fixed(y + 12, 0),
                "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
                "fill=\"#fff\"/>\n",
                body, "</svg>");
}

}  // namespace pagoda
