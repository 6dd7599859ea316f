#pragma once
// One run of the planner: a workload at a rate, on so many replicas, and which share of the requests is late
// in the steady state that it reaches. The first tenth of the requests, which meet an empty engine, is not
// counted. A request that is refused or lost counts as one that waits for ever. A run ends early once so many
// are late that more would not matter. Threads: none.
#include "load/workload_spec.h"
#include "sim/simulation.h"

namespace pagoda {

struct PlanLimits {
  double ttft_p99_s = 1, tpot_p99_s = 0.1;
};
inline constexpr double kLateShare = 0.01;  // that a 99th percentile leaves out

struct SteadyRun {
  double late_ttft = 0, late_tpot = 0;  // shares
  LatencySketch ttft, tpot, latency;
  double mean_batch = 0, mean_sequences = 0;  // requests and sequences in a step
  double busy = 0, last_arrival_s = 0;

  // Above 1 where the run would have to be so much longer: the way into it and out of it does not count in
  // one that lasts as long as thirty requests take. A burst ends before the queue has shown whether it grows.
  double missing_turnovers() const {
    constexpr double kLeast = 30;
    return last_arrival_s > 0 ? kLeast * latency.statistics().mean / last_arrival_s : kLeast;
  }
};

// `spec` has a rate and a number of requests; `options` the replicas. It ends at `most_late`, a share.
Result<SteadyRun> steady_run(const SimulationOptions& options, const WorkloadSpec& spec,
                             const PlanLimits& limits, double most_late = 1);

}  // namespace pagoda
