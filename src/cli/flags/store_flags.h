#pragma once
// Stores the values of a command's flags into the structs that its rows point into. The command line takes
// precedence over the environment, and the environment over the file of --config. A flag takes all its values
// from a single source.
#include "base/status.h"
#include "cli/flags/environment.h"
#include "cli/flags/parse_command_line.h"

namespace pagoda {

// Call once. invalid_argument, naming the flag, variable or line: an invalid value, a mistake in the file, or
// a required flag without a value. not_found: the file does not exist.
Status store_flags(const CommandLine& line, const Environment& environment);

}  // namespace pagoda
