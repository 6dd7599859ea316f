#pragma once
// pagoda inspect: describes a model file, a folder or a JSON file beside a model: its contents, whether the
// model is supported, the memory it needs, and an estimate of its speed on this machine. Loads no weights.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct InspectArgs {
  std::string path;  // folder, .gguf, .safetensors, config.json, tokenizer.json, or ORG/NAME in the hub cache
  bool json = false;  // one JSON object instead of a table
};

std::vector<Flag> inspect_flags(InspectArgs& args);
// Returns 0 after printing the description on stdout; 2 after one line on stderr if the file is malformed or
// missing.
int run_inspect(const InspectArgs& args);

}  // namespace pagoda
