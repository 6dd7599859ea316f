#pragma once
// pagoda perplexity: measures how well a model predicts a text file: mean negative log-likelihood and
// perplexity over non-overlapping windows.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct PerplexityArgs {
  EngineFlags engine;
  std::string file;             // UTF-8 text; "-": stdin
  std::int32_t context = 512;   // tokens per window
  bool bos = false;             // begin each window with the model's BOS token
  bool kl_divergence = false;   // also compute the divergence from the same weights in float32
  std::int64_t max_tokens = 0;  // score only the first tokens of the text; 0: all
};

std::vector<Flag> perplexity_flags(PerplexityArgs& args);
// Prints the results on stdout and progress on stderr.
Status run_perplexity(const PerplexityArgs& args);

}  // namespace pagoda
