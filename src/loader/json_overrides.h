#pragma once
// Overrides of a model's JSON file (--hf-overrides, --override-generation-config).
// Errors: invalid_argument: the overrides are not a JSON object; corrupt_data: the file is not. Threads: any.
// Source: vLLM's options of these names.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// Returns the object `text` changed by `overrides`: objects are merged, other values replaced; null removes
// an entry. `overrides` empty: `text` unchanged.
Result<std::string> with_overrides(std::string_view text, std::string_view overrides);

// Returns the config.json `text` with these fields of rotation scaling replaced, wherever it has them: in the
// language model's rope_scaling, or in rope_parameters (there for layers with full attention). A `factor`
// without a `rope_type` changes YaRN's factor if the model has YaRN, and is linear otherwise. `rope` empty:
// `text` unchanged.
Result<std::string> with_rope(std::string_view text, std::string_view rope);

// Returns {"rope_theta": X} if `overrides` sets it without a scaling, else empty. Otherwise the value in
// rope_parameters would take precedence.
std::string rope_theta_of(std::string_view overrides);

// Returns `overrides` without the keys that turn a language model into a reranker: vLLM has them in the same
// option, but config.json still describes the weights (model_runner/pooling_model.h reads these keys). Empty
// if nothing is left. A text that is not a JSON object is returned unchanged.
std::string without_pooling_keys(std::string_view overrides);

}  // namespace pagoda
