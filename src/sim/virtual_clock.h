#pragma once
// VirtualClock: the time of a simulation. It moves only when somebody moves it, and never back.
// Threads: none; the simulation's.
#include "base/check.h"
#include "base/clock.h"

namespace pagoda {

class VirtualClock final : public Clock {
 public:
  // Not 0, which in the engine means "not yet".
  static constexpr TimeNs kStart = 1'000'000'000;

  TimeNs now() const override { return now_; }
  void advance(TimeNs duration) {
    CHECK(duration >= 0);
    now_ += duration;
  }
  void advance_to(TimeNs time) {
    CHECK(time >= now_);
    now_ = time;
  }

 private:
  TimeNs now_ = kStart;
};

}  // namespace pagoda
