#pragma once
// IdleTimes: how long a device is idle between two consecutive decode steps of the same number of sequences
// (StepResult::idle_seconds), collected while an engine runs. Threads: any.
#include <mutex>
#include <optional>
#include <vector>

#include "engine/step_observer.h"

namespace pagoda {

class IdleTimes final : public StepObserver {
 public:
  void on_step(const StepReport& report) override;
  // Discards all collected times.
  void clear();

  struct Figures {
    std::int64_t steps = 0;
    double median = 0, p99 = 0, worst = 0;  // seconds
  };
  // nullopt if nothing was measured.
  std::optional<Figures> figures() const;

 private:
  mutable std::mutex mutex_;
  std::vector<double> seconds_;
  std::size_t decoding_ = 0;  // sequences in the previous step; 0: it was not a decode step
};

}  // namespace pagoda
