#pragma once
// Perplexity of a text: the mean negative log-likelihood of its tokens, each given those before it in its
// window. Windows of `context` tokens without overlap, each run on its own from position 0; its first token
// is not scored, nor is a last window of one token run. With a BOS that stands at the head of each window as
// one of its tokens, and all that follow are scored.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/model_runner.h"

namespace pagoda {

struct PerplexityOptions {
  std::int32_t context = 512;                 // tokens in a window, at least 2
  std::int32_t block_size = 16;               // of the runner's KV cache, which must hold one window
  std::vector<KvGroup> groups = {};           // of the runner's model; empty: one, a page a row
  std::int32_t max_num_batched_tokens = 512;  // a longer window is run in chunks
  std::optional<TokenId> bos = {};
};

struct PerplexityResult {
  double mean_nll = 0;
  double perplexity = 0;
  std::int64_t num_scored = 0;
  std::vector<double> window_mean_nll;
};

// `progress` (may be empty) is told windows done and windows in all. invalid_argument: fewer than two tokens,
// BOS included.
Result<PerplexityResult> measure_perplexity(
    ModelRunner& runner, std::span<const TokenId> tokens, const PerplexityOptions& options,
    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

// The log-probability of every token of one window but the first; the KV pages 0, 1, ... are used.
Result<std::vector<float>> score_window(ModelRunner& runner, std::span<const TokenId> tokens,
                                        const PerplexityOptions& options);

}  // namespace pagoda
