#pragma once
// Overwrites the values of secret flags where the system keeps the command line, so that `ps` and
// /proc/PID/cmdline do not show them; what was copied before stays right. They could be seen until then: the
// environment is the better place. Threads: before any other runs.
#include "cli/flags/flag.h"

namespace pagoda {

void wipe_secrets(const Command& root, int argc, char** argv);

}  // namespace pagoda
