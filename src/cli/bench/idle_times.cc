#include "cli/bench/idle_times.h"

#include <algorithm>
#include <utility>

namespace pagoda {

void IdleTimes::on_step(const StepReport& report) {
  const std::size_t sequences = report.batch.sequences.size();
  const bool decodes = std::cmp_equal(report.batch.num_tokens, sequences);
  const std::lock_guard lock(mutex_);
  const std::size_t before = std::exchange(decoding_, decodes ? sequences : 0);
  if (decodes && before == sequences && report.result.idle_seconds)
    seconds_.push_back(*report.result.idle_seconds);
}

void IdleTimes::clear() {
  const std::lock_guard lock(mutex_);
  seconds_.clear();
  decoding_ = 0;
}

std::optional<IdleTimes::Figures> IdleTimes::figures() const {
  const std::lock_guard lock(mutex_);
  if (seconds_.empty()) return std::nullopt;
  std::vector<double> sorted = seconds_;
  std::ranges::sort(sorted);
  const std::size_t count = sorted.size();
  return Figures{.steps = static_cast<std::int64_t>(count),
                 .median = sorted[count / 2],
                 .p99 = sorted[std::min(count - 1, count * 99 / 100)],
                 .worst = sorted.back()};
}

}  // namespace pagoda
