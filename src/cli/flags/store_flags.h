#pragma once
// What was given to a command's flags -> the structs that its rows point into. The command line comes before
// the environment, that before the file of --config; of one source a flag takes all its values.
#include "base/status.h"
#include "cli/flags/environment.h"
#include "cli/flags/parse_command_line.h"

namespace pagoda {

// Once. invalid_argument, naming flag, variable or line: a value that the flag does not take, a file with a
// mistake, or a required flag without a value. not_found: no such file.
Status store_flags(const CommandLine& line, const Environment& environment);

}  // namespace pagoda
