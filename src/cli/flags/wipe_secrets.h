#pragma once
// Overwrites the values of secret flags in the process's command line, so that `ps` and /proc/PID/cmdline do
// not show them. Copies made earlier are not affected. The values are visible until the call, so the
// environment is the better place for secrets. Threads: call before any other thread runs.
#include "cli/flags/flag.h"

namespace pagoda {

void wipe_secrets(const Command& root, int argc, char** argv);

}  // namespace pagoda
