#pragma once
// Environment variables: one for each flag (PAGODA_MAX_MODEL_LEN), those of launchers for ranks, and those of
// vLLM and OpenMP that act as defaults of flags.
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

// Returns a variable's value; empty if unset. Injected so that tests need not change their own environment.
using Environment = std::function<std::string(const char* name)>;

// "PAGODA_MAX_MODEL_LEN"; empty if the flag cannot be set by the environment.
std::string environment_name(const Flag& flag);

// The value of a flag's variable in command-line form: "true" or "false" for switches. Empty if unset.
// invalid_argument: an invalid value for a switch.
Result<std::vector<std::string>> environment_value(const Flag& flag, const Environment& environment);

// Returns the names in `names` that begin with PAGODA_ but are not read by any flag of a command below
// `root`, by the program, or by its scripts and tests, each as a sentence with the nearest known name. Also
// returns the variables of llama.cpp's server (LLAMA_ARG_PORT), with the corresponding variable.
std::vector<std::string> unknown_variables(const std::vector<std::string>& names, const Command& root);

// Applied after parsing, to values that no flag has set: the API key from PAGODA_API_KEY, VLLM_API_KEY or
// LLAMA_API_KEY, the KV cache's size from VLLM_CPU_KVCACHE_SPACE (GiB), --allow-runtime-lora-updating from
// VLLM_ALLOW_RUNTIME_LORA_UPDATING, threads from OMP_NUM_THREADS.
Status apply_environment(const Environment& environment, EngineFlags& flags);

}  // namespace pagoda
