#pragma once
// Clock: monotonic time, passed in wherever time is read, so that the simulator can control it.
#include <chrono>
#include <cstdint>

namespace pagoda {

// Nanoseconds since an arbitrary fixed point; never decreases.
using TimeNs = std::int64_t;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimeNs now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

inline double to_seconds(TimeNs duration) { return static_cast<double>(duration) * 1e-9; }

}  // namespace pagoda
