#pragma once
// Every command of the program as data (flags/flag.h). A command's own flags stand beside what runs it; a new
// command is an entry here.
#include "cli/flags/flag.h"

namespace pagoda {

// `pagoda` itself, with all commands below it. What a command's flags fill belongs to the tree: it lives as
// long.
Command command_table();

}  // namespace pagoda
