#include "load/arrivals.h"

#include <algorithm>
#include <cmath>

#include "load/draws.h"

namespace pagoda {

ArrivalProcess::ArrivalProcess(double rate, double burstiness, std::uint64_t seed,
                               std::optional<std::int64_t> exact_count)
    : mean_gap_s_(std::isinf(rate) ? 0 : 1 / rate), burstiness_(burstiness), seed_(seed) {
  if (!exact_count || mean_gap_s_ == 0) return;
  // Each gap is a function of its index, so it can be drawn twice instead of being stored.
  double sum = 0;
  for (std::int64_t i = 0; i < *exact_count; ++i) sum += gap(static_cast<std::uint64_t>(i));
  if (sum > 0) mean_gap_s_ *= static_cast<double>(*exact_count) / sum;
}

ArrivalProcess::ArrivalProcess(const RateRamp& ramp, double burstiness, std::uint64_t seed)
    : ramp_(ramp), mean_gap_s_(1), burstiness_(burstiness), seed_(seed) {}

double ArrivalProcess::next() {
  if (ramp_) {
    const double done = std::min(1.0, static_cast<double>(index_) / static_cast<double>(ramp_->num_requests));
    const double rate = ramp_->exponential ? ramp_->start * std::pow(ramp_->end / ramp_->start, done)
                                           : std::lerp(ramp_->start, ramp_->end, done);
    return sum_ += gap(index_++) / rate;
  }
  if (mean_gap_s_ == 0) return 0;
  sum_ += gap(index_++);
  return sum_ * mean_gap_s_;
}

double ArrivalProcess::gap(std::uint64_t index) const {
  if (std::isinf(burstiness_)) return 1;
  Draws draws(seed_, Draws::Stream::arrival, index);
  return draws.gamma(burstiness_) / burstiness_;
}

}  // namespace pagoda
