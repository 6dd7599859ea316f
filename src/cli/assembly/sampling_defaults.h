#pragma once
// What requests get that say nothing of how to sample: generation_config.json beside the model, or what its
// GGUF file has of it, as vLLM's --generation-config auto, with --override-generation-config instead. Of cli/
// alone.
#include <string_view>

#include "api/api_context.h"
#include "base/status.h"
#include "loader/model_source.h"

namespace pagoda {

// invalid_argument names what of the overrides cannot be used. What of the file cannot is named in the log
// and left out, so that no request meets it.
Result<SamplingDefaults> sampling_defaults(const ModelSource& source, std::string_view overrides);

}  // namespace pagoda
