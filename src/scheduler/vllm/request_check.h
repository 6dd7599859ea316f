#pragma once
// Checks whether a request could run on an otherwise idle engine. Depends on the request, the configuration,
// and those parts of the KV manager that any thread may read. Threads: any.
#include "base/status.h"
#include "kv_cache/kv_manager.h"
#include "request/request.h"
#include "scheduler/scheduler.h"

namespace pagoda {

// invalid_argument, naming the limit, if the request can never run.
Status check_runs_alone(const Request& request, const SchedulerConfig& config, const KvManager& kv);

}  // namespace pagoda
