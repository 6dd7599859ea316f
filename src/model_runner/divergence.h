#pragma once
// How far the distributions of one runner are from those of another over the same text: the Kullback-Leibler
// divergence at every position, as llama.cpp's llama-perplexity --kl-divergence measures it. Not perplexity,
// which sees the text's tokens alone, where roundings either way cancel. Windows are those of perplexity.h.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/perplexity.h"

namespace pagoda {

struct DivergenceResult {
  std::int64_t num_scored = 0;                  // positions
  double mean = 0, p99 = 0, largest = 0;        // KL(reference || runner), in nats
  double same_top = 0;                          // share of positions whose likeliest token is the same
  double mean_nll = 0, reference_mean_nll = 0;  // the text's
  // The standard error of mean_nll - reference_mean_nll, from the differences position by position.
  double nll_difference_error = 0;
};

// Both runners have a vocabulary of `vocab_size` and a KV cache for one window; `reference_groups` is the
// reference's counterpart of options.groups. `progress` (may be empty) is told the windows done.
// invalid_argument: fewer than two tokens, BOS included.
Result<DivergenceResult> measure_divergence(ModelRunner& runner, ModelRunner& reference,
                                            const std::vector<KvGroup>& reference_groups,
                                            std::int32_t vocab_size, std::span<const TokenId> tokens,
                                            const PerplexityOptions& options,
                                            const std::function<void(std::int64_t)>& progress = {});

}  // namespace pagoda
