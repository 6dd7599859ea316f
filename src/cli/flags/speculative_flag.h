#pragma once
// --speculative-config: vLLM's JSON object, for its methods "ngram" and "draft_model".
// Threads: any.
#include <string>

#include "base/status.h"
#include "decoding/speculative_config.h"

namespace pagoda {

// invalid_argument, naming the field: no such object, or one that asks for what is not built in.
Result<SpeculativeConfig> parse_speculative_config(const std::string& json);

}  // namespace pagoda
