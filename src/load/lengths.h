#pragma once
// Draws the lengths of prompts and answers of each request. Arrivals and texts are elsewhere.
//
// sharegpt and alpaca draw from the lengths of the data themselves (load/length_tables.h); pairs with more
// than max_model_len tokens (2,048, OPT's) are drawn again. A prompt and its answer are drawn together. All
// answers of one request, samples or beams, have the same drawn length, as in the paper's artifact. Source:
// PagedAttention (SOSP'23) §6.1, Fig. 11; the artifact of the paper.
#include <cstdint>

#include "load/draws.h"

namespace pagoda {

struct TokenRange {
  std::int32_t low = 1, high = 1;  // inclusive
};

struct RequestLengths {
  std::int32_t prompt_tokens = 1, output_tokens = 1;
};

RequestLengths draw_sharegpt_lengths(Draws& draws, std::int32_t max_model_len);
RequestLengths draw_alpaca_lengths(Draws& draws, std::int32_t max_model_len);
RequestLengths draw_uniform_lengths(Draws& draws, TokenRange input, TokenRange output);

}  // namespace pagoda
