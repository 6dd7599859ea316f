#pragma once
// Every command of the program as data (flags/flag.h). A command's own flags are defined next to its
// implementation; a new command is an entry here.
#include "cli/flags/flag.h"

namespace pagoda {

// Returns the command `pagoda` with all commands below it. The tree owns the arguments that its flags fill.
Command command_table();

}  // namespace pagoda
