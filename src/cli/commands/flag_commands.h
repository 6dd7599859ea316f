#pragma once
// pagoda completion, man and config check: texts generated from the command table, and a check of a file of
// flags.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct CompletionArgs {
  std::string shell;
};

struct ManArgs {
  std::string command;   // "serve", "bench serve", "bench-serve"; empty: pagoda's own page
  std::string output;    // folder for every page; empty: one page on stdout
  std::string markdown;  // "flags", "peer-flags", "commands" or "models": print that page of docs/ instead
};

struct ConfigCheckArgs {
  std::string file;
};

std::vector<Flag> completion_flags(CompletionArgs& args);
// Each prints to stdout.
Status print_completion(const CompletionArgs& args, const Command& root);
std::vector<Flag> man_flags(ManArgs& args);
Status print_man(const ManArgs& args, const Command& root);

std::vector<Flag> config_check_flags(ConfigCheckArgs& args);
// Checks a file of flags for `serve`: returns the error of serve --config, or prints how many flags the file
// sets.
Status check_config(const ConfigCheckArgs& args, const Command& root);

}  // namespace pagoda
