#pragma once
// Converts EngineFlags into the options of the model runner: the path of the model, types, threads, budgets.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "model_runner/local_model_runner.h"
#include "models/model_info.h"

namespace pagoda {

// --threads, or the number of usable cores.
int num_threads(const EngineFlags& flags);

// --model, or the default model's file.
Result<std::string> model_path(const EngineFlags& flags);

// Leaves num_blocks unset, since it depends on the memory left. invalid_argument: the message names the flag.
Result<RunnerOptions> runner_options(const EngineFlags& flags, const ModelInfo& model);

}  // namespace pagoda
