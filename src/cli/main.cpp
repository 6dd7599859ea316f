// The main function of the pagoda program.
#include "cli/cli.h"

int main(int argc, char** argv) { return pagoda::run_cli(argc, argv); }
