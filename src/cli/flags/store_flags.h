#pragma once
// Stores the values given for a command's flags into the structs that its rows point into. The command line
// comes before the environment, that before the file of --config; a flag takes all its values from one
// source.
#include "base/status.h"
#include "cli/flags/environment.h"
#include "cli/flags/parse_command_line.h"

namespace pagoda {

// Once. invalid_argument, naming flag, variable or line: a value that the flag does not take, a file with a
// mistake, or a required flag without a value. not_found: no such file.
Status store_flags(const CommandLine& line, const Environment& environment);

}  // namespace pagoda
