#pragma once
// pagoda completion, man and config check: texts made from the command table, and a look at a file of flags.
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
  std::string markdown;  // "flags", "peer-flags", "commands" or "models": instead, that page of docs/
};

struct ConfigCheckArgs {
  std::string file;
};

std::vector<Flag> completion_flags(CompletionArgs& args);
// Each prints on stdout.
Status print_completion(const CompletionArgs& args, const Command& root);
std::vector<Flag> man_flags(ManArgs& args);
Status print_man(const ManArgs& args, const Command& root);

std::vector<Flag> config_check_flags(ConfigCheckArgs& args);
// A file of flags for `serve`: an error as serve --config would say it, else how many flags it sets.
Status check_config(const ConfigCheckArgs& args, const Command& root);

}  // namespace pagoda
