#pragma once
// Declares the shared flags of engine_flags.h to the parser, and fills what was not given from the
// environment.
#include <functional>
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace CLI {
class App;
}

namespace pagoda {

// `flags` must outlive the parsing.
void add_engine_flags(CLI::App& app, EngineFlags& flags);

// A variable's value; empty when unset. Passed in, so that tests need not change their own environment.
using Environment = std::function<std::string(const char* name)>;

// After parsing: API keys from PAGODA_API_KEY or VLLM_API_KEY, the KV cache's size from
// VLLM_CPU_KVCACHE_SPACE (GiB), threads from OMP_NUM_THREADS; each only where no flag said so.
Status apply_environment(const Environment& environment, EngineFlags& flags);

}  // namespace pagoda
