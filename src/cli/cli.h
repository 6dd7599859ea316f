#pragma once
// The command line of the pagoda program: finds the subcommand, parses its flags, runs it.

namespace pagoda {

// Returns the exit code: 0, or 2 after printing a line "pagoda: …" on stderr.
int run_cli(int argc, char** argv);

}  // namespace pagoda
