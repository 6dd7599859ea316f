#pragma once
// pagoda perplexity: how well a model predicts a text file: mean negative log-likelihood and perplexity over
// windows without overlap.
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
  std::int32_t context = 512;   // tokens in a window
  bool bos = false;             // each window begins with the model's BOS token
  bool kl_divergence = false;   // also from the same weights in float32
  std::int64_t max_tokens = 0;  // score only the first so many tokens of the text; 0: all
};

std::vector<Flag> perplexity_flags(PerplexityArgs& args);
// Prints the figures on stdout, progress on stderr.
Status run_perplexity(const PerplexityArgs& args);

}  // namespace pagoda
