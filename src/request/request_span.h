#pragma once
// RequestSpan: the data of a finished call for a tracer. SpanSink: the receiver. Plain data; tracing/ sends
// it. Times are on the engine's clock.
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "request/request_times.h"

namespace pagoda {

struct RequestSpan {
  std::string traceparent;  // as sent by the client; empty: not sent
  std::string path;         // the route
  std::string id;           // as shown to the client
  std::string model;
  std::string error;  // empty: no error
  bool hung_up = false;
  TimeNs begun = 0, ended = 0;  // at the server
  RequestTimes times;           // in the engine, for the first prompt
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  std::int32_t n = 1, max_tokens = 0;
  float temperature = 1, top_p = 1;
};

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void on_span(RequestSpan span) = 0;  // any thread; does not block
};

}  // namespace pagoda
