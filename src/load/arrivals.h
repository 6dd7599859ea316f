#pragma once
// ArrivalProcess: when requests come, one after the other: Poisson, or gamma gaps of vLLM's --burstiness.
// Source: PagedAttention (SOSP'23) §6.1 (Poisson); vLLM's benchmark for the meaning of burstiness.
// Threads: none.
#include <cstdint>
#include <optional>

namespace pagoda {

class ArrivalProcess {
 public:
  // rate > 0, may be infinite: everything at time 0. burstiness > 0, may be infinite: equal gaps.
  // exact_count: the gaps are stretched so that this many arrivals end at count / rate.
  ArrivalProcess(double rate, double burstiness, std::uint64_t seed,
                 std::optional<std::int64_t> exact_count = std::nullopt);

  double next();  // seconds since the start; never falls

 private:
  double gap(std::uint64_t index) const;  // of mean 1

  double mean_gap_s_;
  double burstiness_;
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
  double sum_ = 0;  // of gaps so far, of mean 1 each
};

}  // namespace pagoda
