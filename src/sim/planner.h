#pragma once
// The planner: finds the highest rate at which a steady state meets latency limits, or the fewest replicas
// that meet them at a given rate, each with an interval. Several draws of the workload run at each rate.
// Within a draw all rates use the same requests with scaled gaps (common random numbers). A rate holds if the
// share of late requests over all draws is at most 1 %: unlike percentiles, shares are unbiased in short
// runs. The interval ends where Student's t over the draws decides whether the limits hold. Runs get longer
// until they far exceed their requests' latency and the interval is narrow. The answer's text is in
// cli/simulate/plan_command.cc.
// Threads: plan() runs the draws on its own threads; `progress` is called on the caller's thread.
#include <functional>
#include <optional>
#include <string>

#include "sim/steady_run.h"

namespace pagoda {

struct PlanQuestion {
  SimulationOptions options;
  // Without a rate. num_requests: for generators the minimum of a run, for traces the number of requests
  // used.
  WorkloadSpec workload;
  PlanLimits limits;
  std::optional<double> rate;  // if set, search for the number of replicas
  std::int32_t replicas = 1;   // otherwise, search for the rate of this many replicas
  std::int32_t num_draws = 5;  // at least 2; two draws give a wide interval
};

struct PlanAnswer {
  double rate = 0;
  std::int32_t replicas = 1;
  double least_rate = 0, most_rate = 0;  // the interval; equal to `rate` if that was given
  std::int32_t least_replicas = 1, most_replicas = 1;
  std::int64_t num_requests = 0;  // requests per run
  // At the rate found, over all draws.
  double ttft_p99_s = 0, tpot_p99_s = 0, mean_batch = 0, busy = 0;
  double capacity = 0;  // requests per second that the replicas finish if all arrive at once
  bool narrow = true;   // false: longer runs would still narrow the interval
};

// invalid_argument: no rate meets the limits, the calibration is too small for the answer, or the longest
// runs reach no steady state.
Result<PlanAnswer> plan(const PlanQuestion& question,
                        const std::function<void(const std::string&)>& progress);

}  // namespace pagoda
