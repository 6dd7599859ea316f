#pragma once
// One run of the planner: a workload at a given rate and number of replicas, and the share of late requests
// in its steady state. The first tenth of the requests meets an empty engine and is not counted. A refused or
// lost request counts as infinitely late. A run stops early when the number of late requests exceeds
// `most_late`. Threads: none.
#include "load/workload_spec.h"
#include "sim/simulation.h"

namespace pagoda {

struct PlanLimits {
  double ttft_p99_s = 1, tpot_p99_s = 0.1;
};
inline constexpr double kLateShare = 0.01;  // the share that a 99th percentile excludes

struct SteadyRun {
  double late_ttft = 0, late_tpot = 0;  // shares
  LatencySketch ttft, tpot, latency;
  double mean_batch = 0, mean_sequences = 0;  // requests and sequences per step
  double busy = 0, last_arrival_s = 0;

  // Factor by which the run is too short; above 1 if it is. A run must last thirty times the mean latency, so
  // that its beginning and end do not matter. A burst ends before the queue shows whether it grows.
  double missing_turnovers() const {
    constexpr double kLeast = 30;
    return last_arrival_s > 0 ? kLeast * latency.statistics().mean / last_arrival_s : kLeast;
  }
};

// `spec` has a rate and a number of requests, `options` the replicas. Stops early at the share `most_late`.
Result<SteadyRun> steady_run(const SimulationOptions& options, const WorkloadSpec& spec,
                             const PlanLimits& limits, double most_late = 1);

}  // namespace pagoda
