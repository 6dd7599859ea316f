#pragma once
// VirtualClock: the time of a simulation. It changes only through advance() and advance_to(), and never
// backwards.
// Threads: none; owned by the simulation.
#include "base/check.h"
#include "base/clock.h"

namespace pagoda {

class VirtualClock final : public Clock {
 public:
  // Not 0, which means "not yet" in the engine.
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
