#pragma once
// --kv-events-config: vLLM's JSON object. Threads: any.
#include <string>

#include "base/status.h"
#include "kv_events/kv_events_config.h"

namespace pagoda {

// invalid_argument, naming the field: not such an object, or an invalid value.
Result<KvEventsConfig> parse_kv_events_config(const std::string& json);

}  // namespace pagoda
