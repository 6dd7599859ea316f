#pragma once
// engine_load: collects the input of a queue forecast from an engine between two steps. The caller adds the
// time and the size of the KV cache. Threads: the engine thread.
#include "engine/engine_config.h"
#include "engine/queue_forecast.h"
#include "engine/request_table.h"

namespace pagoda {

EngineLoad engine_load(const EngineConfig& config, const Scheduler& scheduler, const RequestTable& requests,
                       const StepBudget& budget, const TrafficMeans& traffic);

}  // namespace pagoda
