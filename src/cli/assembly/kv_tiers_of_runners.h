#pragma once
// set_kv_tiers(): the tiers of the KV cache that flags ask for, for every engine of this process.
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "cli/assembly/engine_plan.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/assembly/rank_places.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"

namespace pagoda {

// Each runner, on whose place the threads of its tiers run, gets memory of its own, the disk that all share,
// and peers, the fastest first. Returns the names that KV events have for these. Errors name the flag.
Result<std::vector<std::string>> set_kv_tiers(const EngineFlags& flags, const EnginePlan& plan,
                                              const ModelSource& source, std::span<LoadedRunner> runners,
                                              std::span<const RankPlace> places, MetricsRegistry& metrics);

}  // namespace pagoda
