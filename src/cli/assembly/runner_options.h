#pragma once
// EngineFlags -> what the model runner is created with: the path of the model, types, threads, budgets.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "model_runner/local_model_runner.h"
#include "models/model_info.h"

namespace pagoda {

// --threads, or every usable core.
int num_threads(const EngineFlags& flags);

// --model, or the default model's file.
Result<std::string> model_path(const EngineFlags& flags);

// Without num_blocks, which depends on the memory that is left. invalid_argument names the flag.
Result<RunnerOptions> runner_options(const EngineFlags& flags, const ModelInfo& model);

}  // namespace pagoda
