#pragma once
// HTTP metrics, in addition to the engine's: requests, durations, connections, and the process itself. Named
// as by prometheus-fastapi-instrumentator in vLLM.
// Threads: any.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/metrics.h"

namespace pagoda {

class HttpMetrics {
 public:
  explicit HttpMetrics(MetricsRegistry& registry);

  // `handler` is the route's name, never client text.
  void record(std::string_view method, std::string_view handler, int status, double seconds);
  void connection_opened() { connections_.add(1); }
  void connection_closed() { connections_.add(-1); }
  // The registry's text, with updated values of the process.
  std::string expose(std::string_view prefix, std::string_view model_name);

 private:
  void update_process();

  MetricsRegistry& registry_;
  Gauge& connections_;
  Gauge& resident_;
  Gauge& virtual_;
  Gauge& open_fds_;
  Gauge& max_fds_;
  Gauge& start_time_;
  Counter& log_dropped_;
  Counter& cpu_;
};

}  // namespace pagoda
