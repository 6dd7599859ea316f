#pragma once
// Builds the options of a simulation from flags and a cost model. Flags have the same meaning as for `serve`.
// Unset flags take the defaults of a server on the simulated device: a budget of 2,048 tokens per step, and
// the cost model's KV cache.
#include "cli/flags/engine_flags.h"
#include "sim/simulation.h"

namespace pagoda {

// The parts created by make_memory_parts().
PartsFactory parts_factory(const EngineFlags& flags);

Result<SimulationOptions> simulation_options(const EngineFlags& flags, const CostModel& cost);

}  // namespace pagoda
