#pragma once
// pagoda plan: which rate so many machines can hold within latency limits, or how many a rate needs, by
// search over the simulator.
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
  std::optional<double> rate;            // then the replicas are searched for
  std::int32_t replicas = 1;             // else the rate of so many
  std::int32_t seeds = 5;                // draws of the workload, each with an answer of its own
  double ttft_ms = 1000, tpot_ms = 100;  // limits of the 99th percentiles
  std::string output_json;
};

Status run_plan(const PlanArgs& args);

}  // namespace pagoda
