#pragma once
// The rows of the flags in engine_flags.h, shared by serve, chat, generate, bench and others.
#include <vector>

#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

// Rows by group, in the order of --help. `flags` must outlive them.
std::vector<Flag> engine_flag_table(EngineFlags& flags);

// The parts of the table, each in its own file.
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
