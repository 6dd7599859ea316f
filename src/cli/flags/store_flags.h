#pragma once
// What was given to a command's flags -> the structs that its rows point into.
#include "base/status.h"
#include "cli/flags/parse_command_line.h"

namespace pagoda {

// Once. invalid_argument, naming the flag: a value that it does not take, or a required flag without one.
Status store_flags(const CommandLine& line);

}  // namespace pagoda
