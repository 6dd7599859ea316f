#pragma once
// How long prompts and answers are, drawn per request. Not arrivals, not text.
//
// sharegpt and alpaca have the means of the paper's Fig. 11 (161.31 / 337.99 and 19.31 / 58.45 tokens). The
// paper prints only means and histograms, so the shapes are fitted to public lengths scaled to those means,
// by the smallest Kolmogorov-Smirnov distance over the families log-normal and gamma:
//   sharegpt prompts   log-normal, sigma 1.6   (KS 0.12; first turns of ShareGPT, 500)
//   sharegpt answers   gamma, shape 2          (KS 0.07; ShareGPT, 30,731 turns; log-normal 0.7: 0.10)
//   alpaca prompts     log-normal, sigma 0.55  (KS 0.10; 9,225 of Stanford Alpaca)
//   alpaca answers     gamma, shape 0.9        (KS 0.06; the same; log-normal 1.0: 0.10)
// Rounded to whole tokens and drawn again outside the bounds: a prompt under 4 tokens, a ShareGPT answer
// under 4, both together over max_model_len (2,048, OPT's). The location parameters are solved so that the
// means after all that are the paper's. Prompt and answer are independent (correlations in the data: -0.2 to
// 0.1). Source: PagedAttention (SOSP'23) §6.1, Fig. 11.
#include <cstdint>

#include "load/draws.h"

namespace pagoda {

struct TokenRange {
  std::int32_t low = 1, high = 1;  // both included
};

struct RequestLengths {
  std::int32_t prompt_tokens = 1, output_tokens = 1;
};

RequestLengths draw_sharegpt_lengths(Draws& draws, std::int32_t max_model_len);
RequestLengths draw_alpaca_lengths(Draws& draws, std::int32_t max_model_len);
RequestLengths draw_uniform_lengths(Draws& draws, TokenRange input, TokenRange output);

}  // namespace pagoda
