#pragma once
// Options of the C interface -> EngineFlags, through the command line's flag tables. Threads: any.
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// Option names may use _ or -. Options take precedence over the environment, and that over the file of
// "config". invalid_argument names the option.
Result<EngineFlags> engine_options(const char* model,
                                   std::span<const std::pair<std::string, std::string>> options);

}  // namespace pagoda
