#pragma once
// The sampling defaults of requests: generation_config.json beside the model, or the corresponding fields of
// its GGUF file; if these set nothing, our own table for a few models. --generation-config and
// --override-generation-config modify them as in vLLM. Used only in cli/.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"

namespace pagoda {

// invalid_argument: the message names the invalid override. Invalid values in the file are logged and
// ignored, so that they affect no request.
// `generation_config`: "auto", "vllm" (only the API's defaults), or a folder or file to read instead.
Result<SamplingDefaults> sampling_defaults(const ModelSource& source, std::string_view overrides,
                                           const std::string& generation_config = "auto");

// Replaces values in `defaults` by those of --temperature, --top-p, ...
SamplingDefaults with_flags(SamplingDefaults defaults, const SamplingFlags& flags);

// Returns "requests are sampled with temperature 0.7, top_p 0.8 unless they say otherwise".
std::string describe(const SamplingDefaults& defaults);

}  // namespace pagoda
