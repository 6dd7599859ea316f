#pragma once
// The pagoda program's command line: finds the subcommand, parses its flags, runs it.

namespace pagoda {

// The exit code: 0, or 2 after one line "pagoda: …" on stderr.
int run_cli(int argc, char** argv);

}  // namespace pagoda
