#pragma once
// Measures how far one runner's token distributions are from another's over the same text: the
// Kullback-Leibler divergence at every position, as in llama.cpp's llama-perplexity --kl-divergence.
// Perplexity looks only at the text's own tokens, where rounding errors in both directions cancel. Windows
// are the same as in perplexity.h.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/perplexity.h"

namespace pagoda {

struct DivergenceResult {
  std::int64_t num_scored = 0;            // positions
  double mean = 0, p99 = 0, largest = 0;  // KL(reference || runner), in nats
  double same_top = 0;                    // share of positions where both have the same most likely token
  double mean_nll = 0, reference_mean_nll = 0;  // for the text
  // Standard error of mean_nll - reference_mean_nll, from the per-position differences.
  double nll_difference_error = 0;
};

// Both runners have a vocabulary of `vocab_size` and a KV cache for one window; `reference_groups` are the
// reference's KV groups, as options.groups are the runner's. `progress` (may be empty) is called with the
// number of finished windows. invalid_argument: fewer than two tokens, BOS included.
Result<DivergenceResult> measure_divergence(ModelRunner& runner, ModelRunner& reference,
                                            const std::vector<KvGroup>& reference_groups,
                                            std::int32_t vocab_size, std::span<const TokenId> tokens,
                                            const PerplexityOptions& options,
                                            const std::function<void(std::int64_t)>& progress = {});

}  // namespace pagoda
