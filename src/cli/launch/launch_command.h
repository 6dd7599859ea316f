#pragma once
// pagoda launch: starts an agent or another client with a running server as its model.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct LaunchArgs {
  std::string program, model;  // model empty: the first that the server lists
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  bool print = false;                  // only print what would be run
  std::vector<std::string> arguments;  // passed to the program
};

std::vector<Flag> launch_flags(LaunchArgs& args);
// Replaces this process by the program: returns only if that fails, or with `print`.
int run_launch(const LaunchArgs& args);

}  // namespace pagoda
