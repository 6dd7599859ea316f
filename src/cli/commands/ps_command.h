#pragma once
// pagoda ps, stop: the servers of this user on this machine, found by their command lines in /proc.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct PsArgs {
  bool json = false;
};
struct StopArgs {
  std::string server;  // process id, port or model; empty: the only one
};

std::vector<Flag> ps_flags(PsArgs& args);
int run_ps(const PsArgs& args);
std::vector<Flag> stop_flags(StopArgs& args);
// SIGTERM: running requests may finish. 2 where none fits, or several do.
int run_stop(const StopArgs& args);

}  // namespace pagoda
