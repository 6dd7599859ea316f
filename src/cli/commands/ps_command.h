#pragma once
// pagoda ps, stop: list and stop this user's servers on this machine, found by their command lines in /proc.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct PsArgs {
  bool json = false;
};
struct StopArgs {
  std::string server;  // process id, port or model; empty: the only server
};

std::vector<Flag> ps_flags(PsArgs& args);
int run_ps(const PsArgs& args);
std::vector<Flag> stop_flags(StopArgs& args);
// Sends SIGTERM: running requests may finish. Returns 2 if no server or several servers match.
int run_stop(const StopArgs& args);

}  // namespace pagoda
