// The plot of a simulation: two panels over a common time axis.
#include <algorithm>

#include "base/strings.h"
#include "sim/summary_text.h"

namespace pagoda {
namespace {

constexpr double kWidth = 900, kPanel = 220, kLeft = 70, kRight = 20, kTop = 30, kGap = 50;

struct Panel {
  double top = 0, largest = 1;
  double y(double value) const { return top + kPanel * (1 - value / largest); }
};

std::string text_at(double x, double y, const std::string& text, const char* anchor) {
  return concat("<text x=\"", fixed(x, 1), "\" y=\"", fixed(y, 1), "\" text-anchor=\"", anchor, "\">", text,
                "</text>\n");
}

std::string axes(const Panel& panel, const std::string& title, int digits) {
  std::string out = concat("<rect x=\"", kLeft, "\" y=\"", panel.top, "\" width=\"", kWidth - kLeft - kRight,
                           "\" height=\"", kPanel, "\" fill=\"none\" stroke=\"#888\"/>\n");
  for (int i = 0; i <= 4; ++i) {
    const double value = panel.largest * i / 4;
    out += text_at(kLeft - 6, panel.y(value) + 4, fixed(value, digits), "end");
  }
  return out + text_at(kLeft, panel.top - 8, title, "start");
}

}  // namespace

std::string timeline_svg(const SimulationSummary& summary) {
  const auto& intervals = summary.timeline.intervals();
  const double seconds =
      std::max(1e-9, static_cast<double>(intervals.size()) * summary.timeline.interval_s());
  Panel requests{.top = kTop, .largest = 1}, usage{.top = kTop + kPanel + kGap, .largest = 100};
  for (const Timeline::Interval& interval : intervals) {
    if (interval.seconds <= 0) continue;
    requests.largest = std::max(
        {requests.largest, interval.running / interval.seconds, interval.waiting / interval.seconds});
  }
  const auto line = [&](const Panel& panel, double Timeline::Interval::* member, double scale,
                        const char* colour) {
    std::string out =
        "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" + std::string(colour) + "\" points=\"";
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      const double mean = intervals[i].seconds > 0 ? intervals[i].*member / intervals[i].seconds : 0;
      const double at = (static_cast<double>(i) + 0.5) * summary.timeline.interval_s() / seconds;
      out +=
          concat(fixed(kLeft + at * (kWidth - kLeft - kRight), 1), ',', fixed(panel.y(mean * scale), 1), ' ');
    }
    return out + "\"/>\n";
  };
  std::string out = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"",
                           usage.top + kPanel + kGap, "\" font-family=\"sans-serif\" font-size=\"12\">\n",
                           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  out += axes(requests, "requests: running (blue), waiting (orange)", 0);
  out += line(requests, &Timeline::Interval::running, 1, "#1f77b4");
  out += line(requests, &Timeline::Interval::waiting, 1, "#ff7f0e");
  out += axes(usage, "KV cache in use (%)", 0);
  out += line(usage, &Timeline::Interval::kv_usage, 100, "#2ca02c");
  for (int i = 0; i <= 5; ++i) {
    out += text_at(kLeft + (kWidth - kLeft - kRight) * i / 5, usage.top + kPanel + 18,
                   fixed(seconds * i / 5, 0), "middle");
  }
  return out + text_at(kWidth / 2, usage.top + kPanel + 38, "simulated time (s)", "middle") + "</svg>\n";
}

}  // namespace pagoda
