#pragma once
// A value of vLLM's --lora-modules: NAME=PATH, or {"name", "path", "base_model_name"} in JSON. Threads: any.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

Result<LoraModule> parse_lora_module(const std::string& text);

}  // namespace pagoda
