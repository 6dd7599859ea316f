#pragma once
// --data-parallel-size: several engines in one process, which hold the weights once and divide the threads
// and the memory of the KV cache. Threads: any.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// invalid_argument: flags that belong to one engine, or fewer threads than engines.
Status check_data_parallel(const EngineFlags& flags);

}  // namespace pagoda
