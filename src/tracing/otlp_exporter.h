#pragma once
// OtlpExporter: posts spans to a collector, from a bounded queue on a separate thread. Spans that do not fit
// or cannot be sent are dropped and counted; callers never wait. Traces that their caller does not sample are
// skipped. Errors: invalid_argument for an invalid endpoint. Threads: on_span() from any.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "hub/url.h"
#include "request/request_span.h"
#include "tracing/span_json.h"

namespace pagoda {

class OtlpExporter final : public SpanSink {
 public:
  // `endpoint`: http(s)://HOST:PORT[/PATH]; the default path is /v1/traces. `clock`: the clock of the spans'
  // times.
  static Result<std::unique_ptr<OtlpExporter>> create(const std::string& endpoint, const Clock& clock,
                                                      std::string_view version, MetricsRegistry& metrics);
  ~OtlpExporter() override;  // tries once to send the queued spans

  void on_span(RequestSpan span) override;

 private:
  OtlpExporter(Url url, const Clock& clock, std::string version, MetricsRegistry& metrics);
  void run();
  Status post(std::string body) const;

  const Url url_;
  const TimeNs unix_offset_;
  const std::string version_;
  Counter &sent_, &dropped_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TracedSpan> queue_;  // guarded
  bool ending_ = false;            // guarded
  std::thread thread_;
};

}  // namespace pagoda
