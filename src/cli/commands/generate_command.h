#pragma once
// pagoda generate: completes a prompt; or runs request bodies of /v1/completions from a file and writes the
// response bodies to a file, in order.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct GenerateArgs {
  EngineFlags engine;
  std::string first, second;      // positional words: see typed_words.h
  std::int32_t max_tokens = 256;  // for a typed prompt
  std::string input;              // JSON Lines; "-": stdin; empty: a typed prompt
  std::string output = "-";       // JSON Lines, or the text; "-": stdout
};

std::vector<Flag> generate_flags(GenerateArgs& args);
Status run_generate(const GenerateArgs& args);

}  // namespace pagoda
