#pragma once
// What other programs put into the environment: a launcher's ranks, and variables of vLLM and OpenMP that
// give a flag's value where nothing else does. The variable of each flag (PAGODA_MAX_MODEL_LEN) is read by
// flag_sources.h.
#include <functional>
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// A variable's value; empty when unset. Passed in, so that tests need not change their own environment.
using Environment = std::function<std::string(const char* name)>;

// After parsing: the API key from PAGODA_API_KEY or VLLM_API_KEY, the KV cache's size from
// VLLM_CPU_KVCACHE_SPACE (GiB), threads from OMP_NUM_THREADS; each only where no flag said so.
Status apply_environment(const Environment& environment, EngineFlags& flags);

}  // namespace pagoda
