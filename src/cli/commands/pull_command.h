#pragma once
// pagoda pull, list, rm: models by name, in the Hugging Face cache.
#include <string>

namespace pagoda {

struct PullArgs {
  std::string name;  // ORG/NAME[@REV][:TAG]
};
struct ListArgs {};

// Prints the path of what is to be served: the GGUF file, or the folder.
int run_pull(const PullArgs& args);
int run_list(const ListArgs& args);
int run_rm(const PullArgs& args);

}  // namespace pagoda
