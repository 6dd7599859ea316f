#pragma once
// pagoda simulate: runs the engine on a virtual clock with a cost model, or on a recorded run.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct SimulateArgs {
  SimulateArgs() { engine.max_queue = std::numeric_limits<std::int32_t>::max(); }

  EngineFlags engine;
  std::string replay;             // a log to replay; other flags are not needed then
  std::string compare;            // a log whose arrivals are simulated and compared
  std::string cost_model;         // a name or a file
  bool print_cost_model = false;  // print it as JSON and exit
  std::string workload;           // see load/workload_spec.h
  std::string trace;              // short for --workload trace:FILE
  std::int32_t replicas = 1;
  std::string router = "round-robin";
  double max_seconds = 0;       // simulated time; 0: no limit
  double offload_gb_per_s = 0;  // between the pool and --kv-offloading-size; 0: as for swapping
  std::string output_json, output_csv, plot;
  std::string live_out;  // file of the run for the page at /
  std::optional<std::uint64_t> fault_seed;
  // Number of small engines to run, drawn from consecutive seeds; other flags are not needed then.
  std::int32_t fault_runs = 0;
};

Status run_simulate(const SimulateArgs& args);

}  // namespace pagoda
