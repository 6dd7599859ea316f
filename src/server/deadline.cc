#include "server/deadline.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/strings.h"

namespace pagoda {
namespace {

std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

Status refuse(std::string_view header, std::string_view what) {
  return invalid_argument(concat("The header ", header, " must be ", what, " above 0."))
      .with_param(std::string(header));
}

}  // namespace

Result<std::optional<double>> timeout_of_headers(std::string_view seconds, std::string_view envoy_ms) {
  std::optional<double> out;
  if (!seconds.empty()) {
    out = number(seconds);
    if (!out || *out <= 0) return refuse("X-Request-Timeout", "a number of seconds");
  }
  if (!envoy_ms.empty()) {
    const std::optional<double> value = number(envoy_ms);
    if (!value || *value < 0) return refuse("x-envoy-expected-rq-timeout-ms", "a number of milliseconds");
    if (*value > 0) out = std::min(out.value_or(kMaxTimeoutS), *value / 1000);
  }
  return out;
}

TimeNs deadline_after(TimeNs begin, std::optional<double> header_s, std::optional<double> body_s) {
  if (!header_s && !body_s) return 0;
  const double seconds =
      std::min({header_s.value_or(kMaxTimeoutS), body_s.value_or(kMaxTimeoutS), kMaxTimeoutS});
  return begin + static_cast<TimeNs>(seconds * 1e9);
}

}  // namespace pagoda
