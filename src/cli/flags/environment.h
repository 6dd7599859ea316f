#pragma once
// The environment: the variable of each flag (PAGODA_MAX_MODEL_LEN); and what other programs put there: a
// launcher's ranks, and variables of vLLM and OpenMP that give a flag's value where nothing else does.
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

// A variable's value; empty when unset. Passed in, so that tests need not change their own environment.
using Environment = std::function<std::string(const char* name)>;

// "PAGODA_MAX_MODEL_LEN"; empty where the environment does not set the flag.
std::string environment_name(const Flag& flag);

// The value of a flag's variable, as on the command line: "true" or "false" for switches. Empty: none.
// invalid_argument: a switch that is neither.
Result<std::vector<std::string>> environment_value(const Flag& flag, const Environment& environment);

// Those of `names` that begin with PAGODA_ and that neither a flag of a command below `root`, nor the
// program, nor its scripts and tests read, each as a sentence with the nearest known name; and those of
// llama.cpp's server (LLAMA_ARG_PORT), with the variable that is meant here.
std::vector<std::string> unknown_variables(const std::vector<std::string>& names, const Command& root);

// After parsing: the API key from PAGODA_API_KEY, VLLM_API_KEY or LLAMA_API_KEY, the KV cache's size from
// VLLM_CPU_KVCACHE_SPACE (GiB), --allow-runtime-lora-updating from VLLM_ALLOW_RUNTIME_LORA_UPDATING, threads
// from OMP_NUM_THREADS; each only where no flag said so.
Status apply_environment(const Environment& environment, EngineFlags& flags);

}  // namespace pagoda
