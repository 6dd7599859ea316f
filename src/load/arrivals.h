#pragma once
// ArrivalProcess: the arrival times of requests in order: a Poisson process, or gamma-distributed gaps with
// vLLM's --burstiness.
// Source: PagedAttention (SOSP'23) §6.1 (Poisson); vLLM's benchmark for the definition of burstiness.
// Threads: none.
#include <cstdint>
#include <optional>

namespace pagoda {

// A rate that changes from the first to the last request; both rates above 0.
struct RateRamp {
  bool exponential = false;  // false: linear in the number of requests
  double start = 1, end = 1;
  std::int64_t num_requests = 1;
};

class ArrivalProcess {
 public:
  // The gaps are not rescaled. Source: vLLM's --ramp-up-strategy.
  ArrivalProcess(const RateRamp& ramp, double burstiness, std::uint64_t seed);

  // rate > 0; infinity: all requests at time 0. burstiness > 0; infinity: equal gaps. exact_count: scale the
  // gaps so that this many arrivals end at count / rate.
  ArrivalProcess(double rate, double burstiness, std::uint64_t seed,
                 std::optional<std::int64_t> exact_count = std::nullopt);

  double next();  // seconds since the start; never decreases

 private:
  double gap(std::uint64_t index) const;  // mean 1

  std::optional<RateRamp> ramp_;
  double mean_gap_s_;
  double burstiness_;
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
  double sum_ = 0;  // sum of the gaps so far, each with mean 1
};

}  // namespace pagoda
