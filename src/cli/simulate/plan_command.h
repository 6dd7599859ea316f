#pragma once
// pagoda plan: finds the rate that a number of machines can sustain within latency limits, or the number of
// machines for a rate, by searching with the simulator.
#include <optional>
#include <string>

#include "cli/simulate/simulate_command.h"

namespace pagoda {

struct PlanArgs {
  PlanArgs() { engine.max_queue = std::numeric_limits<std::int32_t>::max(); }

  EngineFlags engine;
  std::string cost_model;
  std::string workload = "sharegpt";  // without a rate
  std::string router = "least-loaded";
  std::optional<double> rate;            // if set, search for the number of replicas
  std::int32_t replicas = 1;             // otherwise, search for the rate of this many replicas
  std::int32_t seeds = 5;                // draws of the workload, each with its own result
  double ttft_ms = 1000, tpot_ms = 100;  // limits of the 99th percentiles
  std::string output_json;
};

Status run_plan(const PlanArgs& args);

}  // namespace pagoda
