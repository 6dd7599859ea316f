#pragma once
// pagoda key new: makes a key, prints it once, and puts its hash into a key file (server/keys/key_file.h).
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct KeyNewArgs {
  std::string name;
  std::string file;  // empty: the entry is printed instead
  std::string role = "user";
};

std::vector<Flag> key_new_flags(KeyNewArgs& args);
int run_key_new(const KeyNewArgs& args);

}  // namespace pagoda
