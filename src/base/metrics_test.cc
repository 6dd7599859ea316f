#include "base/metrics.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(Metrics, TheSameNameAndLabelsGiveTheSameObject) {
  MetricsRegistry registry;
  Counter& stop = registry.counter("done", "Done.", "reason=\"stop\"");
  EXPECT_EQ(&stop, &registry.counter("done", "Done.", "reason=\"stop\""));
  EXPECT_NE(&stop, &registry.counter("done", "Done.", "reason=\"length\""));
}

TEST(Metrics, PrometheusText) {
  MetricsRegistry registry;
  registry.counter("done", "Line one\nand a \\.", "reason=\"stop\"").add(2);
  registry.gauge("process_open_fds", "Open files.").set(0.5);
  Histogram& histogram = registry.histogram("time_seconds", "Times.", {0.1, 1});
  histogram.observe(0.1);  // a bound belongs to its bucket
  histogram.observe(0.5, 3);
  histogram.observe(7);
  EXPECT_EQ(histogram.count(), 5);
  EXPECT_EQ(registry.expose("pagoda", "m=\"x\""),
            "# HELP pagoda:done_total Line one\\nand a \\\\.\n"
            "# TYPE pagoda:done_total counter\n"
            "pagoda:done_total{m=\"x\",reason=\"stop\"} 2\n"
            "# HELP process_open_fds Open files.\n"
            "# TYPE process_open_fds gauge\n"
            "process_open_fds{m=\"x\"} 0.5\n"
            "# HELP pagoda:time_seconds Times.\n"
            "# TYPE pagoda:time_seconds histogram\n"
            "pagoda:time_seconds_bucket{m=\"x\",le=\"0.1\"} 1\n"
            "pagoda:time_seconds_bucket{m=\"x\",le=\"1\"} 4\n"
            "pagoda:time_seconds_bucket{m=\"x\",le=\"+Inf\"} 5\n"
            "pagoda:time_seconds_sum{m=\"x\"} 8.6\n"
            "pagoda:time_seconds_count{m=\"x\"} 5\n");
}

TEST(Metrics, ANameWithAPrefixOfItsOwnKeepsIt) {
  MetricsRegistry registry;
  registry.counter("theirs", "Theirs.").add(1);
  registry.counter("pagoda:ours", "Ours.").add(2);
  const std::string text = registry.expose("vllm", "");
  EXPECT_NE(text.find("\nvllm:theirs_total 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n# TYPE pagoda:ours_total counter\npagoda:ours_total 2\n"), std::string::npos)
      << text;
  EXPECT_NE(registry.expose("pagoda", "").find("\npagoda:ours_total 2\n"), std::string::npos);
}

}  // namespace
}  // namespace pagoda
