#pragma once
// set_kv_tiers(): creates the KV cache tiers selected by flags, for every engine of this process.
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

// Each runner gets its own memory tier, the shared disk tier, and peers, in order of speed; its tier threads
// run on the runner's place. Returns the names of these tiers in KV events. Errors name the flag.
Result<std::vector<std::string>> set_kv_tiers(const EngineFlags& flags, const EnginePlan& plan,
                                              const ModelSource& source, std::span<LoadedRunner> runners,
                                              std::span<const RankPlace> places, MetricsRegistry& metrics);

}  // namespace pagoda
