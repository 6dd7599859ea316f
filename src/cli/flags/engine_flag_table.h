#pragma once
// The rows of the flags in engine_flags.h, which serve, chat, generate, bench and others share.
#include <vector>

#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

// By group, in the order of --help. `flags` must outlive the rows.
std::vector<Flag> engine_flag_table(EngineFlags& flags);

// Its parts, each in a file of its own.
std::vector<Flag> adapter_flag_table(EngineFlags& flags);
std::vector<Flag> kv_cache_flag_table(EngineFlags& flags);
std::vector<Flag> machine_flag_table(EngineFlags& flags);
std::vector<Flag> model_flag_table(EngineFlags& flags);
std::vector<Flag> rank_flag_table(EngineFlags& flags);
std::vector<Flag> rope_flag_table(EngineFlags& flags);
std::vector<Flag> sampling_flag_table(SamplingFlags& flags);
std::vector<Flag> scheduler_flag_table(EngineFlags& flags);
std::vector<Flag> server_flag_table(ServerFlags& flags);

}  // namespace pagoda
