#pragma once
// WriteAllowance: limits the bytes written per hour, for disks that wear out. A token bucket that holds one
// hour's bytes and refills at a constant rate. Threads: one at a time.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/clock.h"

namespace pagoda {

class WriteAllowance {
 public:
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

  WriteAllowance(std::int64_t bytes_per_hour, const Clock& clock)
      : bytes_per_hour_(bytes_per_hour),
        clock_(clock),
        left_(static_cast<double>(bytes_per_hour)),
        at_(clock.now()) {}

  [[nodiscard]] bool take(std::int64_t bytes) {
    if (bytes_per_hour_ == kUnbounded) return true;
    constexpr double kSecondsPerHour = 3600;
    const TimeNs now = clock_.now();
    const auto whole = static_cast<double>(bytes_per_hour_);
    left_ = std::min(whole, left_ + whole * to_seconds(now - at_) / kSecondsPerHour);
    at_ = now;
    if (static_cast<double>(bytes) > left_) return false;
    left_ -= static_cast<double>(bytes);
    return true;
  }

 private:
  const std::int64_t bytes_per_hour_;
  const Clock& clock_;
  double left_;
  TimeNs at_;
};

}  // namespace pagoda
