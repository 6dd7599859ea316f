#pragma once
// Flags that replace values of the model's files: --hf-overrides, --override-kv, and those of its rotation.
// For cli/ alone.
#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"

namespace pagoda {

// invalid_argument: --hf-overrides is no JSON object, or flags contradict each other.
Result<ModelOverrides> model_overrides(const EngineFlags& flags);

}  // namespace pagoda
