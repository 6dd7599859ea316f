#pragma once
// Opens the model named by flags, with the flags that override values in its files: --hf-overrides,
// --override-kv, and the rope flags. Used only in cli/.
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"

namespace pagoda {

// invalid_argument: --hf-overrides is not a JSON object, or flags contradict each other.
Result<ModelOverrides> model_overrides(const EngineFlags& flags);

// invalid_argument: --quantization names a different method than the model's.
Status check_quantization(std::string_view quantization, const ModelSource& source);

// Opens the model at `path` and merges the adapters into it.
Result<std::unique_ptr<ModelSource>> open_with_adapters(const std::string& path,
                                                        const ModelOverrides& overrides,
                                                        std::span<const AdapterFlag> adapters);

// Opens the model of --model, applies overrides, merges adapters and checks --quantization.
Result<std::unique_ptr<ModelSource>> open_model(const EngineFlags& flags);

}  // namespace pagoda
