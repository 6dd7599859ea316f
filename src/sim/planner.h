#pragma once
// The planner: the highest rate at which a steady state keeps limits of latency, or the fewest replicas that
// keep them at a rate; each with an interval. Several draws of the workload run at each rate. Within a draw
// all rates have the same requests, their gaps scaled (common random numbers). A rate holds where the share
// of late requests, over all draws, is at most what a 99th percentile leaves out: shares have no bias in
// short runs, which percentiles have. The interval is where that share's own interval (Student's t over the
// draws) leaves it open. Runs become twice as long until they are far longer than their requests take and the
// interval is narrow. Not the text of the answer: cli/simulate/plan_command.cc. Threads: plan() runs the
// draws on threads of its own; `progress` is called on the caller's.
#include <functional>
#include <optional>
#include <string>

#include "sim/steady_run.h"

namespace pagoda {

struct PlanQuestion {
  SimulationOptions options;
  WorkloadSpec
      workload;  // without a rate; num_requests: of generators the least of a run, of traces those that count
  PlanLimits limits;
  std::optional<double> rate;  // then the replicas are searched for
  std::int32_t replicas = 1;   // else the rate of so many
  std::int32_t num_draws = 5;  // at least 2; an interval of two is wide
};

struct PlanAnswer {
  double rate = 0;
  std::int32_t replicas = 1;
  double least_rate = 0, most_rate = 0;  // the interval; where `rate` was given, that rate
  std::int32_t least_replicas = 1, most_replicas = 1;
  std::int64_t num_requests = 0;  // requests of a run
  // At the rate, over all draws.
  double ttft_p99_s = 0, tpot_p99_s = 0, mean_batch = 0, busy = 0;
  double capacity = 0;  // requests a second that the replicas end when all are there at once
  bool narrow = true;   // else longer runs would still change it
};

// invalid_argument: nothing keeps the limits; a calibration that is too small for the answer; no steady state
// within the longest runs.
Result<PlanAnswer> plan(const PlanQuestion& question,
                        const std::function<void(const std::string&)>& progress);

}  // namespace pagoda
