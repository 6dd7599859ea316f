#pragma once
// Spans as an OTLP ExportTraceServiceRequest in JSON: a span of kind server for each call, with vLLM's
// attributes (gen_ai.*) and an event where a phase begins. Threads: any. Source: OpenTelemetry's protocol,
// "OTLP/HTTP, JSON Protobuf Encoding"; vLLM's tracing.
#include <string>
#include <vector>

#include "request/request_span.h"

namespace pagoda {

struct TracedSpan {
  RequestSpan span;
  std::string trace_id, span_id, parent_id;  // hexadecimal; no parent: empty
};

// `unix_offset`: what makes nanoseconds since 1970 of the engine's clock.
std::string otlp_json(const std::vector<TracedSpan>& spans, TimeNs unix_offset, const std::string& version);

}  // namespace pagoda
