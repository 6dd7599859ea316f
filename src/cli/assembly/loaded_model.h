#pragma once
// LoadedModel: a loaded model before memory is planned for it, and its log lines at start.
// Threads: the starting thread. Owner: assemble.cc.
#include <memory>
#include <string>
#include <vector>

#include "cli/assembly/assemble.h"
#include "cli/assembly/engine_plan.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/assembly/runner_options.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

struct LoadedModel {
  std::shared_ptr<const ModelSource> source;
  ModelInfo info;
  RunnerOptions options;
  std::vector<LoadedRunner> runners;  // one per engine, all identical; on the CPU they share the weights
};

void warn_about_model(const LoadedModel& model);
void log_model(const EngineFlags& flags, const ModelInfo& info, const std::string& name,
               const std::string& computes_on);
// The memory of all engines, after the KV cache is allocated.
MemoryTable memory_table(const EngineFlags& flags, const LoadedModel& model, const EnginePlan& plan);

}  // namespace pagoda
