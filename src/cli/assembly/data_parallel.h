#pragma once
// --data-parallel-size: several engines in one process, which hold the weights once (on devices: once on
// each) and divide the threads and the memory of the KV cache. Threads: any.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/assembly/rank_places.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// The cores and the node of each engine: a list of --cpu-list for each, or one engine a node where there are
// several of both. Nothing for any of them: one engine, or a list for all, which the process is bound to.
// `nodes_folder`: kNumaFolder, but in tests. invalid_argument: lists that do not fit.
Result<std::vector<RankPlace>> engine_places(const EngineFlags& flags, const std::string& nodes_folder);

void log_place(std::int32_t engine, const RankPlace& place);  // if it is one

// The flags that one of them is loaded with: on a device each has its own, the first that of --device.
EngineFlags flags_of_engine(EngineFlags flags, std::int32_t engine);

// invalid_argument: flags that belong to one engine, or fewer threads than engines.
Status check_data_parallel(const EngineFlags& flags);

}  // namespace pagoda
