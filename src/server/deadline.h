#pragma once
// The client's own timeout for its answer: header X-Request-Timeout in seconds (fractions allowed), header
// x-envoy-expected-rq-timeout-ms in milliseconds, and the body's `timeout` in seconds. The shortest applies,
// counted from the end of the request's head. Threads: any; stateless.
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace pagoda {

inline constexpr double kMaxTimeoutS = 86'400;  // longer timeouts are capped

// The timeout in seconds; nullopt if none is set. invalid_argument, naming the header, unless its value is a
// number above 0. `seconds` and `envoy_ms` are the headers' values; empty: absent. Envoy's 0 means no
// timeout.
Result<std::optional<double>> timeout_of_headers(std::string_view seconds, std::string_view envoy_ms);

// 0 if no timeout is set.
TimeNs deadline_after(TimeNs begin, std::optional<double> header_s, std::optional<double> body_s);

}  // namespace pagoda
