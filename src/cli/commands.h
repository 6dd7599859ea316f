#pragma once
// The subcommands of the pagoda program. Each returns its exit code: 0, or 2 after one line on stderr.

namespace pagoda {
int run_cli(int argc, char** argv);
}  // namespace pagoda
