#include "server/http_metrics.h"

#include <dirent.h>
#include <sys/resource.h>

#include <ctime>

#include "base/log_thread.h"
#include "base/metric_label.h"
#include "base/process_memory.h"
#include "base/strings.h"

namespace pagoda {
namespace {

std::string_view known_method(std::string_view method) {
  for (const std::string_view known : {"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})
    if (method == known) return known;
  return "other";
}

double unix_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

HttpMetrics::HttpMetrics(MetricsRegistry& registry)
    : registry_(registry),
      connections_(registry.gauge("http_connections", "Open client connections.")),
      resident_(registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.")),
      virtual_(registry.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.")),
      open_fds_(registry.gauge("process_open_fds", "Number of open file descriptors.")),
      max_fds_(registry.gauge("process_max_fds", "Maximum number of open file descriptors.")),
      start_time_(registry.gauge("process_start_time_seconds",
                                 "Start time of the process since unix epoch in seconds.")),
      log_dropped_(registry.counter("pagoda:log_lines_dropped",
                                    "Number of log lines dropped because the log was not read.")),
      cpu_(registry.counter("process_cpu_seconds", "Total user and system CPU time spent in seconds.")) {
  start_time_.set(unix_now());
}

void HttpMetrics::record(std::string_view method, std::string_view handler, int status, double seconds) {
  const std::string labels = concat("method=\"", known_method(method), "\",handler=\"", handler, "\"");
  registry_
      .counter("http_requests", "HTTP requests by method, status and handler.",
               concat(labels, ",status=\"", status / 100, "xx\""))
      .add();
  registry_
      .histogram("http_request_duration_seconds", "Time from a request's head to the end of its response.",
                 {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}, labels)
      .observe(seconds);
}

void HttpMetrics::update_process() {
  if (const auto dropped = static_cast<double>(log_lines_dropped()); dropped > log_dropped_.value())
    log_dropped_.add(dropped - log_dropped_.value());
  const ProcessMemory memory = process_memory();
  virtual_.set(static_cast<double>(memory.virtual_bytes));
  resident_.set(static_cast<double>(memory.resident_bytes));
  if (DIR* directory = opendir("/proc/self/fd")) {
    double count = -3;  // excludes ".", ".." and the directory's own descriptor
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
    open_fds_.set(count);
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) max_fds_.set(static_cast<double>(limit.rlim_cur));
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    const double total = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (total > cpu_.value()) cpu_.add(total - cpu_.value());
  }
}

std::string HttpMetrics::expose(std::string_view prefix, std::string_view model_name) {
  update_process();
  return registry_.expose(prefix, concat("model_name=\"", label_value(model_name), "\""));
}

}  // namespace pagoda
