#pragma once
// --speculative-config: vLLM's JSON object, for its methods "ngram" and "draft_model".
// Threads: any.
#include <string>

#include "base/status.h"
#include "decoding/speculative_config.h"

namespace pagoda {

// invalid_argument, naming the field: not such an object, or it requests an unsupported feature.
Result<SpeculativeConfig> parse_speculative_config(const std::string& json);

}  // namespace pagoda
