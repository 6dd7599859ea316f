#pragma once
// A fault run: a small simulated engine whose mode, configuration, workload and faults are all drawn from one
// seed. Clients leave, answers are ended early, steps stall, arrivals come in bursts, the pool is tiny and
// shrinks as prefixes are pinned, the swap space is full, the device is lost. Invariants are checked after
// every step. A violation ends the program and prints the seed, which reproduces it. Source: deterministic
// simulation testing as in FoundationDB and TigerBeetle. Threads: one at a time per process (the abort
// handler reads the seed from a global).
#include "sim/simulation.h"

namespace pagoda {

struct FaultRun {
  SimulationSummary summary;
  std::string description;  // mode and configuration in one line
};

// Returns the options and requests derived from a seed.
SimulationOptions fault_options(std::uint64_t seed, const PartsFactory& make_parts);
std::vector<WorkloadRequest> fault_workload(std::uint64_t seed, const SimulationOptions& options);

// internal: an arrival had no outcome or two, or the run did not end.
Result<FaultRun> run_fault_seed(std::uint64_t seed, const PartsFactory& make_parts);

}  // namespace pagoda
