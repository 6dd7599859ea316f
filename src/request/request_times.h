#pragma once
// RequestTimes: the timeline of one request, included in each of its outputs as of that output. Client-side
// latency is longer: sockets and text processing come on top. Units: nanoseconds of the engine's clock; 0 if
// the event has not happened yet. Plain data: any thread.
#include <cstdint>

#include "base/clock.h"

namespace pagoda {

struct RequestTimes {
  TimeNs arrival = 0, first_scheduled = 0, first_token = 0, last_token = 0;
  TimeNs preempted_prefill = 0, preempted_decode = 0;  // time preempted, before and after the first token
  std::int64_t draft_tokens = 0, accepted_tokens = 0;  // proposed, and accepted

  // Durations. Time spent preempted counts as neither prefill nor decode.
  TimeNs queue() const { return first_scheduled == 0 ? 0 : first_scheduled - arrival; }
  TimeNs prefill() const { return first_token == 0 ? 0 : first_token - first_scheduled - preempted_prefill; }
  TimeNs decode() const { return first_token == 0 ? 0 : last_token - first_token - preempted_decode; }
  TimeNs preempted() const { return preempted_prefill + preempted_decode; }
};

}  // namespace pagoda
