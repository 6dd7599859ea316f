#include "tracing/span_json.h"

#include <boost/json.hpp>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kServerSpan = 2, kError = 2;

json::object attribute(std::string_view key, json::object value) {
  return {{"key", json::string(key)}, {"value", std::move(value)}};
}
json::object text(std::string_view key, const std::string& value) {
  return attribute(key, {{"stringValue", value}});
}
// 64-bit integers are strings in Protobuf's JSON.
json::object number(std::string_view key, std::int64_t value) {
  return attribute(key, {{"intValue", std::to_string(value)}});
}
json::object real(std::string_view key, double value) { return attribute(key, {{"doubleValue", value}}); }

json::object span_of(const TracedSpan& traced, TimeNs unix_offset) {
  const RequestSpan& span = traced.span;
  const RequestTimes& times = span.times;
  const auto unix_time = [&](TimeNs time) { return std::to_string(time + unix_offset); };
  json::array attributes = {text("gen_ai.request.id", span.id),
                            text("gen_ai.response.model", span.model),
                            number("gen_ai.request.n", span.n),
                            number("gen_ai.request.max_tokens", span.max_tokens),
                            real("gen_ai.request.temperature", span.temperature),
                            real("gen_ai.request.top_p", span.top_p),
                            number("gen_ai.usage.prompt_tokens", span.prompt_tokens),
                            number("gen_ai.usage.completion_tokens", span.completion_tokens),
                            number("pagoda.usage.cached_tokens", span.cached_tokens),
                            real("gen_ai.latency.e2e", to_seconds(span.ended - span.begun))};
  json::array events;
  const auto event = [&](const char* name, TimeNs time) {
    if (time != 0) events.push_back({{"name", name}, {"timeUnixNano", unix_time(time)}});
  };
  event("queued", times.arrival);
  event("scheduled", times.first_scheduled);
  event("first_token", times.first_token);
  event("last_token", times.last_token);
  if (times.first_scheduled != 0)
    attributes.push_back(real("gen_ai.latency.time_in_queue", to_seconds(times.queue())));
  if (times.first_token != 0) {
    attributes.push_back(
        real("gen_ai.latency.time_to_first_token", to_seconds(times.first_token - times.arrival)));
    attributes.push_back(real("gen_ai.latency.time_in_model_prefill", to_seconds(times.prefill())));
    attributes.push_back(real("gen_ai.latency.time_in_model_decode", to_seconds(times.decode())));
    attributes.push_back(
        real("gen_ai.latency.time_in_model_inference", to_seconds(times.prefill() + times.decode())));
    attributes.push_back(real("pagoda.latency.time_preempted", to_seconds(times.preempted())));
  }
  if (span.hung_up) attributes.push_back(attribute("pagoda.client_hung_up", {{"boolValue", true}}));
  json::object out = {{"traceId", traced.trace_id},
                      {"spanId", traced.span_id},
                      {"name", "llm_request"},
                      {"kind", kServerSpan},
                      {"startTimeUnixNano", unix_time(span.begun)},
                      {"endTimeUnixNano", unix_time(span.ended)},
                      {"attributes", std::move(attributes)},
                      {"events", std::move(events)}};
  out["attributes"].as_array().push_back(text("url.path", span.path));
  if (!traced.parent_id.empty()) out["parentSpanId"] = traced.parent_id;
  if (!span.error.empty()) out["status"] = {{"code", kError}, {"message", span.error}};
  return out;
}

}  // namespace

std::string otlp_json(const std::vector<TracedSpan>& spans, TimeNs unix_offset, const std::string& version) {
  json::array list;
  for (const TracedSpan& span : spans) list.push_back(span_of(span, unix_offset));
  const json::object resource = {
      {"attributes", json::array{text("service.name", "pagoda"), text("service.version", version)}}};
  return json::serialize(json::object{
      {"resourceSpans",
       json::array{json::object{{"resource", resource},
                                {"scopeSpans", json::array{json::object{{"scope", {{"name", "pagoda"}}},
                                                                        {"spans", std::move(list)}}}}}}}});
}

}  // namespace pagoda
