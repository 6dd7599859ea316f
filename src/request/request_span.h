#pragma once
// RequestSpan: what a call has to tell to a tracer once it has ended, and who wants to hear it. Plain data;
// not how it is sent (tracing/). Times are of the engine's clock.
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "request/request_times.h"

namespace pagoda {

struct RequestSpan {
  std::string traceparent;  // as the client sent it; empty: it did not
  std::string path;         // the route
  std::string id;           // as the client sees it
  std::string model;
  std::string error;  // empty: it went well
  bool hung_up = false;
  TimeNs begun = 0, ended = 0;  // at the server
  RequestTimes times;           // in the engine; of the first prompt
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  std::int32_t n = 1, max_tokens = 0;
  float temperature = 1, top_p = 1;
};

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void on_span(RequestSpan span) = 0;  // any thread; returns at once
};

}  // namespace pagoda
