#pragma once
// Overrides of a JSON file of the model (--hf-overrides, --override-generation-config).
// Errors: invalid_argument, the overrides are no JSON object; corrupt_data, the file is none. Threads: any.
// Source: vLLM's options of these names.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// The object `text` with what `overrides` says instead: objects are merged, all else is replaced; null takes
// an entry away. `overrides` empty: `text` as it is.
Result<std::string> with_overrides(std::string_view text, std::string_view overrides);

// The config.json `text` with these fields of its rotation's scaling instead, wherever it has them: of the
// language model, in rope_scaling, or in rope_parameters, there of the layers that see everything. A `factor`
// without a `rope_type` stretches YaRN where the model has it, and is linear otherwise. `rope` empty: as it
// is.
Result<std::string> with_rope(std::string_view text, std::string_view rope);

// {"rope_theta": X} where `overrides` set it and no scaling beside it, else empty: rope_parameters has
// another one, which would win.
std::string rope_theta_of(std::string_view overrides);

// `overrides` without what turns a language model into a reranker: vLLM has it in the same option, but the
// model's weights stay what config.json says (model_runner/pooling_model.h reads it). Nothing left: empty.
// A text that is not a JSON object is returned unchanged.
std::string without_pooling_keys(std::string_view overrides);

}  // namespace pagoda
