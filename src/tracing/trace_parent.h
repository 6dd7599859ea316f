#pragma once
// TraceParent: W3C's traceparent header: "00-<trace: 32 hex>-<span: 16 hex>-<flags: 2 hex>". Errors: nullopt.
// Threads: any. Source: W3C Trace Context, level 1.
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

struct TraceParent {
  std::string trace_id, span_id;  // lower-case hexadecimal, not all zero
  bool sampled = false;
};

std::optional<TraceParent> parse_trace_parent(std::string_view header);

}  // namespace pagoda
