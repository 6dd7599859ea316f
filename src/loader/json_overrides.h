#pragma once
// What a user says instead of a JSON file of the model (--hf-overrides, --override-generation-config).
// Errors: invalid_argument, the overrides are no JSON object; corrupt_data, the file is none. Threads: any.
// Source: vLLM's options of these names.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// The object `text` with what `overrides` says instead: objects are merged, all else is replaced; null takes
// an entry away. `overrides` empty: `text` as it is.
Result<std::string> with_overrides(std::string_view text, std::string_view overrides);

}  // namespace pagoda
