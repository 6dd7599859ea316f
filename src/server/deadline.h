#pragma once
// How long a client waits for its answer, as it says itself: X-Request-Timeout in seconds (fractions
// allowed), x-envoy-expected-rq-timeout-ms in milliseconds, and a body's `timeout` in seconds. The shortest
// holds, from the end of the request's head on. Threads: any; keeps nothing.
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace pagoda {

inline constexpr double kMaxTimeoutS = 86'400;  // longer is as long

// Seconds; nullopt: it says nothing. invalid_argument, naming the header: no number above 0.
// `seconds` and `envoy_ms` are the headers' values; empty: absent. Envoy's 0 is none.
Result<std::optional<double>> timeout_of_headers(std::string_view seconds, std::string_view envoy_ms);

// 0: none.
TimeNs deadline_after(TimeNs begin, std::optional<double> header_s, std::optional<double> body_s);

}  // namespace pagoda
