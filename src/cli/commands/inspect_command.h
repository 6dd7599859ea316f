#pragma once
// pagoda inspect: what a model file, a folder or a JSON file beside a model holds, whether it can be run,
// the memory it will take, and an estimate of its speed on this machine. Loads no weights.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct InspectArgs {
  std::string path;  // folder, .gguf, .safetensors, config.json, tokenizer.json, or ORG/NAME in the hub cache
  bool json = false;  // one JSON object instead of a table
};

std::vector<Flag> inspect_flags(InspectArgs& args);
// 0 and the description on stdout; or 2 and one line on stderr: malformed, or not there.
int run_inspect(const InspectArgs& args);

}  // namespace pagoda
