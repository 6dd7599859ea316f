#pragma once
// Opens the model that flags name, with the flags that replace values of its files: --hf-overrides,
// --override-kv, and those of its rotation. For cli/ alone.
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

// invalid_argument: --quantization names another method than the one that the model is quantised by.
Status check_quantization(std::string_view quantization, const ModelSource& source);

// The model at `path`, with adapters merged into it.
Result<std::unique_ptr<ModelSource>> open_with_adapters(const std::string& path,
                                                        const ModelOverrides& overrides,
                                                        std::span<const AdapterFlag> adapters);

// The model of --model, its overrides applied, its adapters merged, and --quantization checked.
Result<std::unique_ptr<ModelSource>> open_model(const EngineFlags& flags);

}  // namespace pagoda
