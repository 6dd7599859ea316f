#pragma once
// IdleTimes: how long a device computes nothing between a decode step and the next one of as many sequences
// (StepResult::idle_seconds), collected while an engine runs. Threads: any.
#include <mutex>
#include <optional>
#include <vector>

#include "engine/step_observer.h"

namespace pagoda {

class IdleTimes final : public StepObserver {
 public:
  void on_step(const StepReport& report) override;
  // Forgets what was collected so far.
  void clear();

  struct Figures {
    std::int64_t steps = 0;
    double median = 0, p99 = 0, worst = 0;  // seconds
  };
  // None: nothing was measured.
  std::optional<Figures> figures() const;

 private:
  mutable std::mutex mutex_;
  std::vector<double> seconds_;
  std::size_t decoding_ = 0;  // sequences of the step before; 0: it was no decode step
};

}  // namespace pagoda
