#pragma once
// Every command of the program, with its flags, as data (flags/flag.h). A new command is an entry here.
#include "cli/flags/flag.h"

namespace pagoda {

// `pagoda` itself, with all commands below it. What a command's flags fill belongs to the tree: it lives as
// long.
Command command_table();

}  // namespace pagoda
