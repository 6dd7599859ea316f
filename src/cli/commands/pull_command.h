#pragma once
// pagoda pull, list, rm, models: manage models by name in the Hugging Face cache.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct PullArgs {
  std::string name;  // ORG/NAME[@REV][:TAG], a short name or an address
};
struct ListArgs {
  bool json = false;
};
struct ModelsArgs {};

std::vector<Flag> pull_flags(PullArgs& args);
// Prints the path to serve: the GGUF file, or the folder.
int run_pull(const PullArgs& args);
std::vector<Flag> list_flags(ListArgs& args);
// Lists the models on this machine: those in the Hugging Face cache, and those that script/model has put into
// Pagoda's own cache.
int run_list(const ListArgs& args);
int run_rm(const PullArgs& args);
// Prints the short names of hub/short_names.h.
int run_models(const ModelsArgs& args);

}  // namespace pagoda
