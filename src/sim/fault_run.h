#pragma once
// A fault run: a small simulated engine of some mode, configuration and workload, all drawn from one seed, on
// which things go wrong: clients leave, answers are ended early, steps stall, arrivals come in bursts, the
// pool is tiny and shrinks as prefixes are pinned, the swap space is full, the device is lost. Invariants are
// checked after every step; a broken one ends the program, naming the seed, which breaks it again. Source:
// deterministic simulation testing as in FoundationDB and TigerBeetle. Threads: one at a time in a process
// (the seed is noted for the abort handler).
#include "sim/simulation.h"

namespace pagoda {

struct FaultRun {
  SimulationSummary summary;
  std::string description;  // mode and configuration, one line
};

// The options and the requests that a seed stands for.
SimulationOptions fault_options(std::uint64_t seed, const PartsFactory& make_parts);
std::vector<WorkloadRequest> fault_workload(std::uint64_t seed, const SimulationOptions& options);

// internal: an arrival had no end, or two, or the run did not end.
Result<FaultRun> run_fault_seed(std::uint64_t seed, const PartsFactory& make_parts);

}  // namespace pagoda
