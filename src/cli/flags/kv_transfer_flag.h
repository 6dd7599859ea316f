#pragma once
// --kv-transfer-config: vLLM's JSON object. Threads: any.
#include <string>

#include "base/status.h"
#include "kv_peer/kv_transfer_config.h"

namespace pagoda {

// invalid_argument, naming the field: not such an object, or an invalid value.
Result<KvTransferConfig> parse_kv_transfer_config(const std::string& json);

}  // namespace pagoda
