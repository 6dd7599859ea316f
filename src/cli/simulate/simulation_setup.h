#pragma once
// Flags and a cost model -> what a simulation needs. The flags mean what they mean to `serve`; where they are
// not given, a simulated device has a server's defaults: a budget of 2,048 tokens a step, and the cost
// model's KV cache.
#include "cli/flags/engine_flags.h"
#include "sim/simulation.h"

namespace pagoda {

// The parts behind make_memory_parts().
PartsFactory parts_factory(const EngineFlags& flags);

Result<SimulationOptions> simulation_options(const EngineFlags& flags, const CostModel& cost);

}  // namespace pagoda
