#pragma once
// Writes spans as an OTLP ExportTraceServiceRequest in JSON: one span of kind server per call, with vLLM's
// attributes (gen_ai.*) and an event at the beginning of each phase. Threads: any. Source: OpenTelemetry's
// protocol, "OTLP/HTTP, JSON Protobuf Encoding"; vLLM's tracing.
#include <string>
#include <vector>

#include "request/request_span.h"

namespace pagoda {

struct TracedSpan {
  RequestSpan span;
  std::string trace_id, span_id, parent_id;  // hexadecimal; parent_id empty if none
};

// `unix_offset`: added to the engine's clock to get nanoseconds since 1970.
std::string otlp_json(const std::vector<TracedSpan>& spans, TimeNs unix_offset, const std::string& version);

}  // namespace pagoda
