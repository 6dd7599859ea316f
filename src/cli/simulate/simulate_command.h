#pragma once
// pagoda simulate: the engine on a virtual clock and a cost model, or on a recorded run.
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
  std::string replay;             // a log; nothing else is needed then
  std::string compare;            // a log, to simulate from its arrivals alone
  std::string cost_model;         // a name, or a file
  bool print_cost_model = false;  // as JSON, and nothing else
  std::string workload;           // see load/workload_spec.h
  std::string trace;              // short for --workload trace:FILE
  std::int32_t replicas = 1;
  std::string router = "round-robin";
  double max_seconds = 0;       // simulated time; 0: to the end
  double offload_gb_per_s = 0;  // between the pool and --kv-offloading-size; 0: as swapping
  std::string output_json, output_csv, plot;
  std::string live_out;  // the run as the page at / shows it
  std::optional<std::uint64_t> fault_seed;
  std::int32_t fault_runs =
      0;  // so many small engines drawn from the seeds that follow; nothing else is needed
};

Status run_simulate(const SimulateArgs& args);

}  // namespace pagoda
