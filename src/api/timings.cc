#include "api/timings.h"

namespace pagoda {
namespace {

double milliseconds(TimeNs time) { return to_seconds(time) * 1e3; }

void write_part(JsonWriter& json, const std::string& name, std::int64_t count, TimeNs time) {
  const double ms = milliseconds(time);
  json.key(name + "_n").integer(count).key(name + "_ms").float64(ms);
  json.key(name + "_per_token_ms").float64(count > 0 ? ms / static_cast<double>(count) : 0);
  json.key(name + "_per_second").float64(ms > 0 ? 1e3 * static_cast<double>(count) / ms : 0);
}

}  // namespace

void write_timings(JsonWriter& json, const AnswerState& answer) {
  write_timings(json, answer.usage(), answer.times());
}

void write_timings(JsonWriter& json, const Usage& usage, const RequestTimes& times) {
  json.begin_object().key("cache_n").integer(usage.cached_tokens);
  write_part(json, "prompt", usage.prompt_tokens - usage.cached_tokens, times.prefill());
  write_part(json, "predicted", usage.completion_tokens, times.decode());
  json.key("queue_ms").float64(milliseconds(times.queue()));
  json.key("preempted_ms").float64(milliseconds(times.preempted()));
  json.key("draft_n").integer(times.draft_tokens).key("draft_n_accepted").integer(times.accepted_tokens);
  json.end_object();
}

}  // namespace pagoda
