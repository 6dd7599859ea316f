#pragma once
// Options of the C interface -> EngineFlags, by the rows that the command line has. Threads: any.
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// Names with _ or -; then the environment, then the file of "config". invalid_argument names the option.
Result<EngineFlags> engine_options(const char* model,
                                   std::span<const std::pair<std::string, std::string>> options);

}  // namespace pagoda
