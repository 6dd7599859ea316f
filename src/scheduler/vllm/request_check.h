#pragma once
// Whether a request could run with everything to itself. A function of the request, the configuration and
// what of the KV manager any thread may read. Threads: any.
#include "base/status.h"
#include "kv_cache/kv_manager.h"
#include "request/request.h"
#include "scheduler/scheduler.h"

namespace pagoda {

// invalid_argument, naming the limit: never.
Status check_runs_alone(const Request& request, const SchedulerConfig& config, const KvManager& kv);

}  // namespace pagoda
