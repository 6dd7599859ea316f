#include <algorithm>
#include <utility>

#include "sim/simulation.h"

namespace pagoda {

void Timeline::add(double begin_s, double end_s, double running, double waiting, double kv_usage) {
  while (end_s >= interval_s_ * static_cast<double>(kIntervals)) {
    for (std::size_t i = 0; i < intervals_.size(); ++i) {
      const Interval from = std::exchange(intervals_[i], {});
      Interval& to = intervals_[i / 2];
      to.seconds += from.seconds;
      to.running += from.running;
      to.waiting += from.waiting;
      to.kv_usage += from.kv_usage;
    }
    intervals_.resize((intervals_.size() + 1) / 2);
    interval_s_ *= 2;
  }
  for (double at = begin_s; at < end_s;) {
    const auto i = static_cast<std::size_t>(at / interval_s_);
    const double edge = interval_s_ * static_cast<double>(i + 1);
    const double until = edge > at ? std::min(end_s, edge) : end_s;
    if (i >= intervals_.size()) intervals_.resize(i + 1);
    Interval& interval = intervals_[i];
    interval.seconds += until - at;
    interval.running += running * (until - at);
    interval.waiting += waiting * (until - at);
    interval.kv_usage += kv_usage * (until - at);
    at = until;
  }
}

}  // namespace pagoda
