#pragma once
// pagoda key new: creates a key, prints it once, and stores its hash in a key file (server/keys/key_file.h).
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct KeyNewArgs {
  std::string name;
  std::string file;  // empty: print the entry instead
  std::string role = "user";
};

std::vector<Flag> key_new_flags(KeyNewArgs& args);
int run_key_new(const KeyNewArgs& args);

}  // namespace pagoda
