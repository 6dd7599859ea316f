#pragma once
// Parses a value of vLLM's --lora-modules: NAME=PATH, or JSON {"name", "path", "base_model_name"}. Threads:
// any.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

Result<LoraModule> parse_lora_module(const std::string& text);

}  // namespace pagoda
