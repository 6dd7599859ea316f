#include "base/metrics.h"

#include <gtest/gtest.h>

#include "base/metric_label.h"

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

TEST(Metrics, AnInfoGaugeHasItsLatestLabels) {
  MetricsRegistry registry;
  InfoGauge& info = registry.labelled("engine=\"0\"").info_gauge("state", "State.");
  info.set("names=\"a\"", 1);
  info.set(std::string("names=\"") + label_value("a\\b\"c\nd") + "\"", 2.5);
  EXPECT_EQ(registry.expose("vllm", "m=\"x\""),
            "# HELP vllm:state State.\n"
            "# TYPE vllm:state gauge\n"
            "vllm:state{m=\"x\",engine=\"0\",names=\"a\\\\b\\\"c\\nd\"} 2.5\n");
}

TEST(Metrics, PartsAddTheirLabelsToOneFamily) {
  MetricsRegistry registry;
  MetricsRegistry& first = registry.labelled("engine=\"0\"");
  MetricsRegistry& second = registry.labelled("engine=\"1\"");
  first.gauge("running", "Requests.").set(2);
  second.gauge("running", "Requests.").set(3);
  second.counter("done", "Ended.", "reason=\"stop\"").add(1);
  EXPECT_EQ(&second.gauge("running", ""), &second.gauge("running", ""));
  EXPECT_EQ(registry.expose("vllm", "m=\"x\""),
            "# HELP vllm:running Requests.\n"
            "# TYPE vllm:running gauge\n"
            "vllm:running{m=\"x\",engine=\"0\"} 2\n"
            "vllm:running{m=\"x\",engine=\"1\"} 3\n"
            "# HELP vllm:done_total Ended.\n"
            "# TYPE vllm:done_total counter\n"
            "vllm:done_total{m=\"x\",engine=\"1\",reason=\"stop\"} 1\n");
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
