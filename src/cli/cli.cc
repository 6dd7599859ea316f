#include "cli/commands.h"

#include <cstdio>

namespace pagoda {
int run_cli(int, char**) {
  std::fputs("pagoda: no subcommand yet\n", stderr);
  return 2;
}
}  // namespace pagoda
