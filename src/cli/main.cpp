// The pagoda program: hands the arguments to the subcommands.
#include "cli/commands.h"

int main(int argc, char** argv) { return pagoda::run_cli(argc, argv); }
