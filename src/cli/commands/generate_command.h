#pragma once
// pagoda generate: request bodies of /v1/completions from a file, response bodies to a file, in order.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct GenerateArgs {
  EngineFlags engine;
  std::string input;   // JSON Lines; "-": stdin
  std::string output;  // JSON Lines; "-": stdout
};

Status run_generate(const GenerateArgs& args);

}  // namespace pagoda
