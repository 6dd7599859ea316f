#pragma once
// --data-parallel-size: several engines in one process. They share one copy of the weights (on devices: one
// copy per device) and divide the threads and the memory of the KV cache. Threads: any.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/assembly/rank_places.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// Returns the cores and the NUMA node of each engine: one list of --cpu-list per engine, or one engine per
// node if there are several of both. Places are empty for a single engine, or if one list is for all engines,
// to which the process is bound. `nodes_folder`: kNumaFolder, except in tests. invalid_argument: lists that
// do not fit.
Result<std::vector<RankPlace>> engine_places(const EngineFlags& flags, const std::string& nodes_folder);

void log_place(std::int32_t engine, const RankPlace& place);  // if the place is set

// The flags for one engine. On devices each engine has its own device; the first has that of --device.
EngineFlags flags_of_engine(EngineFlags flags, std::int32_t engine);

// invalid_argument: flags that only support a single engine, or fewer threads than engines.
Status check_data_parallel(const EngineFlags& flags);

}  // namespace pagoda
