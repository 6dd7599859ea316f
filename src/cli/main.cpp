// The pagoda program: hands the arguments to the subcommands.
#include "cli/cli.h"

int main(int argc, char** argv) { return pagoda::run_cli(argc, argv); }
