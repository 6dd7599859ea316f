#pragma once
// The sampling of requests that do not set it: generation_config.json beside the model or what its GGUF file
// has of it; where these have nothing, a row of our own for a few models. --generation-config and
// --override-generation-config change it as in vLLM. Of cli/ alone.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"

namespace pagoda {

// invalid_argument names what of the overrides cannot be used. What of the file cannot is named in the log
// and left out, so that no request meets it.
// `generation_config`: "auto", "vllm" (no defaults but the API's), or a folder or file to read instead.
Result<SamplingDefaults> sampling_defaults(const ModelSource& source, std::string_view overrides,
                                           const std::string& generation_config = "auto");

// `defaults` with what --temperature, --top-p, ... say instead.
SamplingDefaults with_flags(SamplingDefaults defaults, const SamplingFlags& flags);

// "requests are sampled with temperature 0.7, top_p 0.8 unless they say otherwise".
std::string describe(const SamplingDefaults& defaults);

}  // namespace pagoda
